"""Looking at a run in a browser: a local server, one HTML file, a notebook widget. No torch, no transformers."""
