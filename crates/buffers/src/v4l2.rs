//! Camera frames into chosen pages: V4L2 user pointers.
//!
//! Rule: the driver is asked to use the program's own buffers (`V4L2_MEMORY_USERPTR`); each is
//! handed over, filled by the device and taken back. A driver that only supports buffers of its own
//! is refused. Source: mc2-os-isolation, section 4.3 (frame buffers); the kernel's
//! linux/videodev2.h, whose sizes and places a test here compares. Does not cover: formats (the
//! device's as it is set), several planes. The layout is tested against the kernel's header, the
//! refusals on other devices; frames of the kernel's imitated camera (vivid) come in
//! tests/vm/camera.sh.

use crate::{BufferError, Mapping};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

const CAPTURE: u32 = 1;
const USERPTR: u32 = 2;
/// Longest wait for a frame.
const PATIENCE_S: i64 = 5;
const G_FMT: libc::c_ulong = request(3, 4, size_of::<Format>());
const REQBUFS: libc::c_ulong = request(3, 8, size_of::<RequestBuffers>());
const QBUF: libc::c_ulong = request(3, 15, size_of::<Buffer>());
const DQBUF: libc::c_ulong = request(3, 17, size_of::<Buffer>());
const STREAMON: libc::c_ulong = request(1, 18, 4);
const STREAMOFF: libc::c_ulong = request(1, 19, 4);

/// A request number: direction (1 to the kernel, 3 both ways), number, size.
const fn request(direction: u64, number: u64, size: usize) -> libc::c_ulong {
    direction << 30 | (size as u64) << 16 | (b'V' as u64) << 8 | number
}

/// `struct v4l2_requestbuffers`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct RequestBuffers {
    count: u32,
    kind: u32,
    memory: u32,
    capabilities: u32,
    flags: u8,
    reserved: [u8; 3],
}

/// `struct v4l2_format` of a capture device, of 64-bit kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Format {
    kind: u32,
    /// The union that follows holds pointers.
    padding: u32,
    width: u32,
    height: u32,
    pixels: u32,
    field: u32,
    line_bytes: u32,
    image_bytes: u32,
    rest: [u32; 44],
}

/// `struct v4l2_buffer`, of 64-bit kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Buffer {
    index: u32,
    kind: u32,
    bytesused: u32,
    flags: u32,
    field: u32,
    timestamp: [i64; 2],
    timecode: [u32; 4],
    sequence: u32,
    memory: u32,
    userptr: u64,
    length: u32,
    reserved2: u32,
    request_fd: i32,
}

/// A device that fills given buffers.
pub struct Camera {
    file: File,
    name: String,
    buffers: Vec<Mapping>,
    streams: bool,
}

/// Bytes that the device writes for a frame, with its present settings.
///
/// # Errors
/// It is not a V4L2 capture device.
pub fn frame_bytes(path: &Path) -> Result<usize, BufferError> {
    let (file, name) = open(path)?;
    // SAFETY: numbers only, for which zero is valid.
    let mut format: Format = unsafe { std::mem::zeroed() };
    format.kind = CAPTURE;
    call(&file, &name, G_FMT, &mut format, "name a V4L2 capture device")?;
    match format.image_bytes as usize {
        0 => Err(BufferError::Machine(format!(
            "{name}: its frames have no bytes; set a format (v4l2-ctl)"
        ))),
        bytes => Ok(bytes),
    }
}

fn open(path: &Path) -> Result<(File, String), BufferError> {
    let name = path.display().to_string();
    let file = File::options().read(true).write(true).open(path);
    let file = file.map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => BufferError::Input(format!(
            "{name}: there is no such device; name one like /dev/video0"
        )),
        _ => BufferError::io(&name, &e, "name a device like /dev/video0"),
    })?;
    Ok((file, name))
}

fn call<T>(
    file: &File,
    name: &str,
    request: libc::c_ulong,
    argument: &mut T,
    remedy: &str,
) -> Result<(), BufferError> {
    loop {
        // SAFETY: the request's number holds the argument's size, which the kernel reads and
        // writes.
        if unsafe { libc::ioctl(file.as_raw_fd(), request, std::ptr::from_mut(argument)) } == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(BufferError::io(name, &error, remedy));
        }
    }
}

impl Camera {
    /// Opens it and hands all buffers over.
    ///
    /// # Errors
    /// It is not a V4L2 device, does not take user pointers, or not these.
    pub fn open(path: &Path, buffers: Vec<Mapping>) -> Result<Self, BufferError> {
        let (file, name) = open(path)?;
        let count = u32::try_from(buffers.len()).unwrap_or(u32::MAX);
        let mut camera = Self { file, name, buffers, streams: false };
        let mut asked =
            RequestBuffers { count, kind: CAPTURE, memory: USERPTR, ..RequestBuffers::default() };
        camera.call(
            REQBUFS,
            &mut asked,
            "name a V4L2 capture device; its driver must take user pointers",
        )?;
        if asked.count < count {
            return Err(BufferError::Machine(format!(
                "{}: it takes {} buffers of {count}; give fewer",
                camera.name, asked.count
            )));
        }
        for index in 0..count {
            camera.give(index)?;
        }
        Ok(camera)
    }

    fn call<T>(
        &self,
        request: libc::c_ulong,
        argument: &mut T,
        remedy: &str,
    ) -> Result<(), BufferError> {
        call(&self.file, &self.name, request, argument, remedy)
    }

    /// The buffers; the device may own some of them at the moment.
    #[must_use]
    pub fn buffers(&self) -> &[Mapping] {
        &self.buffers
    }

    /// Hands a buffer over, to be filled.
    ///
    /// # Errors
    /// There is no such buffer, or the driver does not take its pages.
    pub fn give(&mut self, index: u32) -> Result<(), BufferError> {
        let Some(memory) = self.buffers.get(index as usize) else {
            return Err(BufferError::Input(format!(
                "there is no buffer {index}; there are {}",
                self.buffers.len()
            )));
        };
        let (userptr, length) =
            (memory.as_ptr() as u64, u32::try_from(memory.len()).unwrap_or(u32::MAX));
        let mut buffer =
            Buffer { index, kind: CAPTURE, memory: USERPTR, userptr, length, ..Buffer::default() };
        self.call(QBUF, &mut buffer, "give buffers as large as the device's frames")
    }

    /// Waits for a frame: its buffer and length. The buffer is the caller's until it is given
    /// again.
    ///
    /// # Errors
    /// The device fails.
    pub fn frame(&mut self) -> Result<(u32, &[u8]), BufferError> {
        if !self.streams {
            self.call(STREAMON, &mut CAPTURE.clone(), "another program may use the device")?;
            self.streams = true;
        }
        let mut ready = [PollFd::new(&self.file, PollFlags::IN)];
        let limit = Timespec { tv_sec: PATIENCE_S, tv_nsec: 0 };
        if rustix::event::poll(&mut ready, Some(&limit)) == Ok(0) {
            return Err(BufferError::Machine(format!(
                "{}: no frame came within {} s; does it have a signal?",
                self.name, PATIENCE_S
            )));
        }
        let mut buffer = Buffer { kind: CAPTURE, memory: USERPTR, ..Buffer::default() };
        self.call(DQBUF, &mut buffer, "check that the device is still connected")?;
        let whole = self.buffers.get(buffer.index as usize).map(|b| &b[..]);
        match whole.and_then(|b| b.get(..buffer.bytesused as usize)) {
            Some(frame) => Ok((buffer.index, frame)),
            None => Err(BufferError::Machine(format!(
                "{}: its driver names a buffer that it did not get; use another device",
                self.name
            ))),
        }
    }
}

impl Drop for Camera {
    fn drop(&mut self) {
        // Before the buffers go: the device must not write to them any more.
        if self.streams {
            let _ = self.call(STREAMOFF, &mut CAPTURE.clone(), "");
        }
        let mut none =
            RequestBuffers { kind: CAPTURE, memory: USERPTR, ..RequestBuffers::default() };
        let _ = self.call(REQBUFS, &mut none, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE;
    use std::io::Write;
    use std::mem::offset_of;
    use std::process::{Command, Stdio};

    #[test]
    fn what_is_no_camera_is_refused() {
        let buffers = || vec![Mapping::new(PAGE).unwrap()];
        assert!(
            frame_bytes(Path::new("/dev/null")).unwrap_err().to_string().contains("capture device")
        );
        for path in ["/dev/null", "/nonexistent"] {
            let error = Camera::open(Path::new(path), buffers()).err().unwrap().to_string();
            assert!(error.contains(path) && error.contains(';'), "{error}");
        }
    }

    /// The compiler checks that the layout agrees with the kernel's header.
    #[test]
    fn the_layout_is_the_kernels() {
        let mut text = "#include <stddef.h>\n#include <linux/videodev2.h>\n".to_owned();
        let members = [
            ("bytesused", offset_of!(Buffer, bytesused)),
            ("timestamp", offset_of!(Buffer, timestamp)),
            ("timecode", offset_of!(Buffer, timecode)),
            ("memory", offset_of!(Buffer, memory)),
            ("m.userptr", offset_of!(Buffer, userptr)),
            ("length", offset_of!(Buffer, length)),
            ("request_fd", offset_of!(Buffer, request_fd)),
        ];
        for (member, at) in members {
            text += &format!(
                "_Static_assert(offsetof(struct v4l2_buffer, {member}) == {at}, \"{member}\");\n"
            );
        }
        text += &format!(
            "_Static_assert(offsetof(struct v4l2_format, fmt.pix.sizeimage) == {}, \"\");\n",
            offset_of!(Format, image_bytes)
        );
        let numbers = [
            ("G_FMT", G_FMT),
            ("REQBUFS", REQBUFS),
            ("QBUF", QBUF),
            ("DQBUF", DQBUF),
            ("STREAMON", STREAMON),
            ("STREAMOFF", STREAMOFF),
        ];
        for (name, number) in numbers {
            text += &format!("_Static_assert(VIDIOC_{name} == {number}u, \"{name}\");\n");
        }
        text += &format!(
            "_Static_assert(V4L2_MEMORY_USERPTR == {USERPTR} && V4L2_BUF_TYPE_VIDEO_CAPTURE == \
                {CAPTURE}, \"\");\n"
        );
        let compiler = Command::new("cc")
            .args(["-x", "c", "-fsyntax-only", "-"])
            .stdin(Stdio::piped())
            .spawn();
        let Ok(mut compiler) = compiler else {
            return eprintln!("skipped: there is no C compiler");
        };
        compiler.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(compiler.wait().unwrap().success(), "{text}");
    }
}
