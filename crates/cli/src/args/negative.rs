//! Negative values of options that take a quantity.
//!
//! Problem: clap takes `-1ms` in `--duration -1ms` for an option that it does not know, and names
//! no option that was given. Rule: an option of one quantity takes the next argument, also with a
//! hyphen; the quantity's own message then says what is wrong. Options of plain numbers take
//! negative ones: that of a whole number then names its option, and each command checks the range
//! of a fraction. Does not cover: options of several values, and arguments without a name.

use clap::builder::ValueRange;
use clap::{Arg, Command};
use solocore_model::{Bandwidth, Bytes, Frequency, Time};
use std::any::TypeId;

/// The same command line, with negative values taken.
pub fn taken(command: Command) -> Command {
    command.mut_args(signed).mut_subcommands(taken)
}

fn signed(argument: Arg) -> Arg {
    let one = argument.get_num_args().is_none_or(|range| range == ValueRange::SINGLE);
    if argument.is_positional() || !one {
        return argument;
    }
    let parser = argument.get_value_parser().type_id();
    let quantities = [
        TypeId::of::<Time>(),
        TypeId::of::<Bandwidth>(),
        TypeId::of::<Bytes>(),
        TypeId::of::<Frequency>(),
    ];
    let quantity = quantities.iter().any(|quantity| parser == *quantity);
    let numbers =
        [TypeId::of::<f64>(), TypeId::of::<u64>(), TypeId::of::<u32>(), TypeId::of::<usize>()];
    let number = numbers.iter().any(|number| parser == *number);
    match (quantity, number) {
        (true, _) => argument.allow_hyphen_values(true),
        (_, true) => argument.allow_negative_numbers(true),
        _ => argument,
    }
}
