//! See [`rowstream_fuzz::cursor()`].
#![cfg_attr(fuzzing, no_main)]

rowstream_fuzz::program!(rowstream_fuzz::cursor);
