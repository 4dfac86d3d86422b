//! See [`rowstream_fuzz::flight_answer()`].
#![cfg_attr(fuzzing, no_main)]

rowstream_fuzz::program!(rowstream_fuzz::flight_answer);
