//! See [`rowstream_fuzz::discovery()`].
#![cfg_attr(fuzzing, no_main)]

rowstream_fuzz::program!(rowstream_fuzz::discovery);
