//! Orders to devices: one at a time to each, the others wait.

use crate::hardware::{DeviceId, Hardware, Transfer};
use std::collections::VecDeque;

/// Most orders that wait for a device; further ones are dropped, and counted.
const MOST_WAITING: usize = 1024;

/// The devices that have ever had an order.
#[derive(Default)]
pub struct Devices {
    /// (device, whether it has an order, the orders that wait).
    devices: Vec<(DeviceId, bool, VecDeque<Transfer>)>,
    pub dropped: u64,
}

impl Devices {
    fn entry(&mut self, device: DeviceId) -> &mut (DeviceId, bool, VecDeque<Transfer>) {
        let at = self.devices.iter().position(|d| d.0 == device).unwrap_or_else(|| {
            self.devices.push((device, false, VecDeque::new()));
            self.devices.len() - 1
        });
        &mut self.devices[at]
    }

    /// Gives an order, at once or when the device is idle.
    pub fn order(&mut self, hardware: &mut impl Hardware, device: DeviceId, order: Transfer) {
        let (_, busy, waiting) = self.entry(device);
        if !std::mem::replace(busy, true) {
            hardware.transfer(device, order);
        } else if waiting.len() < MOST_WAITING {
            waiting.push_back(order);
        } else {
            self.dropped += 1;
        }
    }

    /// A device has completed its order.
    pub fn done(&mut self, hardware: &mut impl Hardware, device: DeviceId) {
        let (_, busy, waiting) = self.entry(device);
        match waiting.pop_front() {
            Some(order) => hardware.transfer(device, order),
            None => *busy = false,
        }
    }
}
