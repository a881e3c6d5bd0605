//! The part of an engine that tests of handovers do not look at.

/// Functions of an [`super::Engine`] that counts nothing, serves nobody and always regulates.
macro_rules! quiet_engine {
    () => {
        fn name(&self) -> &'static str {
            "test"
        }

        fn counts(&self) -> Result<Vec<(u32, crate::regulate::shared::Counts)>, LinuxError> {
            Ok(Vec::new())
        }

        fn check(&mut self) -> Result<bool, LinuxError> {
            Ok(false)
        }

        fn pulses(
            &self,
            _: &[u32],
        ) -> std::collections::BTreeMap<u32, crate::regulate::attach::Pulse> {
            std::collections::BTreeMap::new()
        }

        fn rearm(&mut self, _: u32) -> Result<(), LinuxError> {
            Ok(())
        }

        fn periods(&self) -> Vec<crate::regulate::history::Taken> {
            Vec::new()
        }

        fn notes(&self) -> Vec<String> {
            Vec::new()
        }

        fn served(&self) -> Option<crate::regulate::engine::Served<'_>> {
            None
        }
    };
}
pub(crate) use quiet_engine;
