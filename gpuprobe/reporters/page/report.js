// Draws the plots. What it draws is data in this page; nothing is fetched and no text is run.
(() => {
  "use strict";
  const { devices, layers } = JSON.parse(document.getElementById("plots").textContent);
  const themes = JSON.parse(document.getElementById("themes").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const paper = window.matchMedia("print");
  const tooltip = { disableDefaultStyle: true };
  const refuse = () => Promise.reject(new Error("a report loads nothing"));
  const loader = { load: refuse, sanitize: refuse, http: refuse, file: refuse };

  // Columns back into rows: of each table only what the panel draws.
  function rows(table, names) {
    const made = [];
    for (let index = 0; index < table.rows; index += 1) {
      const row = {};
      for (const name of names) {
        const column = table.columns[name];
        let value = Array.isArray(column) ? column[index] : column;
        if (name === "at" || name === "until") value += table.begin;
        row[name] = value;
      }
      made.push(row);
    }
    return made;
  }

  function filled(panel, device) {
    const datasets = {};
    for (const [name, columns] of Object.entries(panel.columns)) {
      datasets[name] = rows(device.tables[name], columns);
    }
    const layer = panel.spec.layer.map((index) => structuredClone(layers[index]));
    return { ...panel.spec, layer, datasets };
  }

  class Plots {
    constructor(device, element) {
      this.device = device;
      this.element = element;
      this.views = [];
      this.domain = device.focus;
      this.busy = false;
      for (const button of element.querySelectorAll("button")) {
        button.addEventListener("click", () => this.press(button.dataset.do));
      }
    }

    async draw() {
      for (const made of this.views.splice(0)) made.finalize();
      const places = this.element.querySelectorAll(".plot");
      const config = dark.matches && !paper.matches ? themes.dark : themes.light;
      for (let index = 0; index < places.length; index += 1) {
        const spec = filled(this.device.panels[index], this.device);
        const made = await window.vegaEmbed(places[index], spec, {
          ast: true, actions: false, defaultStyle: false, renderer: "canvas", config, tooltip,
          loader,
          // Errors only: a table without rows that stand alone is no reason to warn.
          logLevel: 1,
        });
        this.views.push(made);
        made.view.addSignalListener("zoom_at", (_, domain) => this.move(domain, made));
      }
      await this.move(this.domain, null);
      this.element.dataset.drawn = dark.matches ? "dark" : "light";
    }

    // All panels of a device show the same stretch of time; null is all of it.
    async move(domain, source) {
      const wanted = domain || this.device.whole;
      if (source && String(wanted.map(Number)) === String(this.domain.map(Number))) return;
      this.domain = wanted;
      this.again = true;
      if (this.busy) return;
      this.busy = true;
      while (this.again) {
        this.again = false;
        for (const made of this.views) {
          if (made !== source) await made.view.signal("zoom_at", this.domain).runAsync();
        }
      }
      this.busy = false;
    }

    press(what) {
      const [begin, end] = this.domain.map(Number);
      const middle = (begin + end) / 2;
      const half = (end - begin) / 2;
      if (what === "whole") this.move(this.device.whole, null);
      if (what === "focus") this.move(this.device.focus, null);
      if (what === "closer") this.move([middle - half / 2, middle + half / 2], null);
      if (what === "wider") this.move([middle - half * 2, middle + half * 2], null);
      if (what === "earlier") this.move([begin - half, end - half], null);
      if (what === "later") this.move([begin + half, end + half], null);
    }
  }

  const shown = [];
  for (const element of document.querySelectorAll("[data-device]")) {
    const plots = new Plots(devices[Number(element.dataset.device)], element);
    let drawn = false;
    const open = () => {
      if (drawn || !element.open) return;
      drawn = true;
      shown.push(plots);
      plots.draw();
    };
    element.addEventListener("toggle", open);
    open();
  }
  dark.addEventListener("change", () => shown.forEach((plots) => plots.draw()));
  window.addEventListener("beforeprint", () => {
    for (const element of document.querySelectorAll("details")) element.open = true;
  });
})();
