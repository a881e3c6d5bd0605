# Devices that write into coloured buffers: `solocore bench camera`, and the programs of examples/buffers with and without a reserve. After common.sh;
# BYTES and SUM are those of the disk.
board="--platform core-i5-2500k"
expect 0 "frames" solocore bench camera /dev/video0 --frames 6
solocore bench camera /dev/video0 --frames 12 --colored $board --level-c 50 --format csv >/tmp/out || fail "bench camera: $?"
cat /tmp/out
# Four buffers, two of each list, all of whose pages were written, and none in a wrong frame.
awk -F, '$1 == 12 && $4 == 4 && $5 == 2 && $6 > 100 && $7 == $6 && $8 == 0 { ok = 1 } END { exit !ok }' /tmp/out || fail "not as it should be"
expect 3 "" solocore bench camera /dev/null
expect 2 "no such device" solocore bench camera /dev/video9

# The examples without a reserve. In a program that runs as the task the buffers are the program's own.
expect 3 "name a device like" camera /dev/video9
expect 11 "solocore reserve --plan" camera /dev/video0
expect 11 "solocore reserve --plan" disk /dev/vda
# filled WHAT PLACE: what the examples say of a device that fills each page of buffers, all in their colours.
filled() {
	cat /tmp/said
	case $1 in
	camera)
		grep -q "^60 frames, 9216000 bytes, into 4 buffers of 38 pages ($2)$" /tmp/said && grep -q "^2280 pages of frames, 0 not written$" /tmp/said &&
			grep -q "^[1-9][0-9]* looks at pages while the device had them, 0 in other colours$" /tmp/said
		;;
	disk)
		grep -q "^21 blocks of at most 409600 bytes, $BYTES bytes, .* MB/s, sum $SUM$" /tmp/said && grep -q "^1 buffer of 100 pages ($2)$" /tmp/said &&
			grep -q "^2200 looks at pages, 0 in other colours$" /tmp/said
		;;
	esac && pass "$1 fills buffers ($2), with no page in another colour" || fail "$1 ($2)"
}
for task in video:camera recorder:disk; do
	program=${task#*:}
	case $program in
	camera) arguments="/dev/video0 video 60 0-7/32" ;;
	disk) arguments="/dev/vda recorder 400 8-15/32" ;;
	esac
	solocore exec --plan /plan.json --task ${task%:*} $board -- $program $arguments >/tmp/said 2>/tmp/errors || fail "$program in colours: $? $(cat /tmp/errors)"
	filled $program own
done

# The examples under a reserve. Compaction, which moves pages of others, moves none of a buffer while the camera has it.
hold --plan /plan.json $board
cat /tmp/held
camera /dev/video0 video 60 0-7/32 >/tmp/said 2>&1 &
camera=$!
sleep 1
echo 1 >/proc/sys/vm/compact_memory
kill -0 $camera || fail "the camera was done before memory was compacted"
wait $camera || fail "camera: $?"
filled camera reserved
disk /dev/vda recorder 400 8-15/32 >/tmp/said 2>&1 || fail "disk: $?"
filled disk reserved
expect 13 "no such task" disk /dev/vda nobody
expect 14 "too few frames" disk /dev/vda recorder 1048576
chmod 644 /dev/vda
expect 12 "root alone" su user -c "disk /dev/vda"

# The looks can fail: colours of the other task.
expect 1 "^304 looks at pages while the device had them, 304 in other colours$" camera /dev/video0 video 2 8-15/32
expect 1 "^2200 looks at pages, 2200 in other colours$" disk /dev/vda recorder 400 0-7/32
kill -INT $reserve
wait $reserve || fail "the reserve ends with $?"

echo "failures: $failures"
[ $failures = 0 ]
