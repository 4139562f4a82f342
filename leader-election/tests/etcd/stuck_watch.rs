//! Hunts candidates that rely on a watch whose answers no longer come, while all other
//! calls are served.
