"""Where inputs come from: a name becomes a model, a text becomes tokens, and a running model is watched."""
