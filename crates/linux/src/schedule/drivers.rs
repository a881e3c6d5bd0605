//! Drivers: programs that move data in the slots of the time table.
//!
//! Rule: a driver is started once, shortly before the first release, and again whenever it ends. It
//! names its transfer of the table itself (`sc_attach_slot`, client/c). It runs on the I/O core,
//! above all other programs there: transfers of devices before physical ones, because their slots
//! may overlap. In a plan without an I/O core it runs on the CPU for interrupts as an ordinary
//! task.
//! Source: single-core-equivalence, sections 2.4 and 3.1 (step 4).
//! Does not cover: a driver in the kernel, or a running driver, which attaches by itself.

use super::placed::{How, Placed, Wishes, startable};
use crate::clients::slots::{LONGEST_NAME, SlotTable};
use crate::error::LinuxError;
use solocore_model::Plan;

/// Priority of a device's transfer: below the threads that keep windows, above every task.
const DEVICE: i32 = 91;
/// Priority of a physical input or output.
const PHYSICAL: i32 = 90;

/// The drivers that the user wishes.
pub(super) fn place(
    plan: &Plan,
    slots: &SlotTable,
    wishes: &Wishes,
    irq_cpu: u32,
) -> Result<Vec<Placed>, LinuxError> {
    let io_core = plan.windows().and_then(|windows| windows.io_core);
    let mut placed = Vec::new();
    for slot in &slots.slots {
        let Some((name, command)) = wishes.commands.iter().find(|(name, _)| *name == slot.name)
        else {
            continue;
        };
        let priority = if slot.core.is_some() { DEVICE } else { PHYSICAL };
        let how = How::Drive(startable(name, command.clone(), &wishes.directory)?);
        placed.push(Placed {
            fifo: io_core.filter(|_| wishes.fifo).map(|_| priority),
            ..Placed::new(name, io_core.unwrap_or(irq_cpu), how)
        });
    }
    Ok(placed)
}

/// Note for the user on the table's transfers.
pub(super) fn note(slots: &SlotTable) -> Option<String> {
    if let Some(slot) = slots.slots.iter().find(|s| s.name.len() > LONGEST_NAME) {
        return Some(format!(
            "no driver can attach as `{}`: the name is longer than {LONGEST_NAME} bytes; give the \
                partition a shorter one and plan again",
            slot.name
        ));
    }
    (!slots.slots.is_empty()).then(|| {
        format!(
            "the table's input and output ({}) wait for drivers that attach (sc_attach_slot, \
                --command SLOT=COMMAND)",
            if slots.slots.len() == 1 {
                "1 transfer".to_owned()
            } else {
                format!("{} transfers", slots.slots.len())
            }
        )
    })
}
