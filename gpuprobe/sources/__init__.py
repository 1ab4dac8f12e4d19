"""Where events come from: inputs, their framing and their wording."""
