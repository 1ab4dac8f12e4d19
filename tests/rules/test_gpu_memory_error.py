"""When the GPU's memory is at fault."""

from __future__ import annotations

from _judging import findings, first, kinds, only, pci

from gpuprobe.diagnosis import Certainty, Kind

KIND = Kind.GPU_MEMORY_ERROR
DBE = "[  300.000000] NVRM: Xid (PCI:0000:1a:00): 48, pid=9, name=train, DBE (double bit error) detected at physical address 0x12340\n"
REMAP = "[  300.000000] NVRM: Xid (PCI:0000:1a:00): 63, pid=9, name=train, Row Remapper: New row marked for remapping, reset gpu to activate.\n"


def test_a_double_bit_error_confirms_it() -> None:
    """Xid 48 names the GPU."""
    verdict = only(DBE)

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.CONFIRMED)
    assert pci(verdict) == "0000:1a:00.0"


def test_a_repair_alone_is_only_possible() -> None:
    """Xid 63 records that a row will be remapped."""
    assert only(REMAP).certainty is Certainty.POSSIBLE


def test_rows_that_were_remapped_are_as_little() -> None:
    """DCGM counts what Xid 63 records; a row that could not be remapped is another matter."""
    remapped = "GPU 5 had uncorrectable memory errors and 2 rows were remapped\n"
    failed = "GPU 5 had uncorrectable memory errors and row remapping failed.\n"

    assert only(remapped).certainty is Certainty.POSSIBLE
    assert only(remapped + failed).certainty is Certainty.LIKELY


def test_two_gpus_are_two_verdicts() -> None:
    """Each GPU's memory is its own fault."""
    text = DBE + DBE.replace("1a:00", "1b:00").replace("300.0", "900.0")

    assert kinds(text) == [KIND, KIND]


def test_a_contained_error_is_tagged() -> None:
    """Xid 94 alone ends one program: the next steps are for that."""
    (found,) = findings(
        KIND,
        "[  300.000000] NVRM: Xid (PCI:0000:1a:00): 94, pid=9, name=train, Contained: SM (0x1). RST: No, D-RST: No\n",
    )

    assert "contained" in found.tags


def test_the_program_s_words_alone_are_likely_and_name_no_gpu() -> None:
    """CUDA 214 says that some GPU's memory failed."""
    verdict = only("RuntimeError: CUDA error: uncorrectable ECC error encountered\n")

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.LIKELY)
    assert pci(verdict) is None


def test_the_host_s_memory_is_not_the_gpu_s() -> None:
    """EDAC speaks of DIMMs."""
    text = "[  300.000000] EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0)\n"

    assert findings(KIND, text) == []
    assert KIND not in kinds(text)


def test_nvidia_smi_s_tables_count_as_well() -> None:
    """A count in the table or in a CSV query is a finding of the GPU in that row."""
    table = "|   2  NVIDIA A30               On  | 00000000:1A:00.0 Off |                    7 |\n"
    query = "gpu_bus_id, remapped_rows.pending, remapped_rows.failure\n00000000:1A:00.0, 1, 0\n"

    assert [pci(found) for found in findings(KIND, table)] == ["0000:1a:00.0"]
    assert [pci(found) for found in findings(KIND, query)] == ["0000:1a:00.0"]
    assert findings(KIND, table.replace(" 7 |", " 0 |")) == []


def test_amdgpu_s_ras_is_the_root_of_the_reset() -> None:
    """A GPU whose memory failed is reset by its driver."""
    text = (
        "[  300.000000] amdgpu 0000:c1:00.0: amdgpu: 1 uncorrectable hardware errors detected in umc block\n"
        "[  300.100000] amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!\n"
    )
    verdict = only(text)

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.CONFIRMED)
    assert pci(verdict) == "0000:c1:00.0"


def test_the_xml_of_nvidia_smi_counts_as_its_text_does() -> None:
    """A count since the driver was loaded; one of the card's life says nothing of now."""
    text = (
        '<gpu id="00000000:3B:00.0">\n\t<ecc_errors>\n\t\t<volatile>\n'
        "\t\t\t<dram_uncorrectable>6</dram_uncorrectable>\n\t\t</volatile>\n"
    )

    assert first(text).kind is KIND
    assert pci(first(text)) == "0000:3b:00.0"
    assert first(text.replace("volatile", "aggregate")).kind is Kind.NO_FAULT
