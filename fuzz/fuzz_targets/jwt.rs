//! See [`rowstream_fuzz::jwt()`].
#![cfg_attr(fuzzing, no_main)]

rowstream_fuzz::program!(rowstream_fuzz::jwt);
