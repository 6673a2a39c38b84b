"""Where workers run: hosts in threads or Ray actors, who keeps them alive, and who cleans up behind a killed driver."""
