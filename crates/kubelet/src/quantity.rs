//! Resource quantities as plain numbers; what is no quantity is `None`.

use apimachinery::quantity::Quantity;

/// Thousandths of the quantity, rounded up.
pub(crate) fn milli(text: &str) -> Option<i64> {
    Quantity::parse(text).ok().map(|quantity| quantity.milli_value())
}

/// The quantity in whole units, rounded up.
pub(crate) fn value(text: &str) -> Option<i64> {
    Quantity::parse(text).ok().map(|quantity| quantity.value())
}
