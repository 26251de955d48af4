"""Which API server is meant, and who we are to it: kubeconfig files, plugins, tokens, TLS."""
