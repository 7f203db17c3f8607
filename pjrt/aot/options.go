package aot

import (
	"encoding/binary"
	"maps"
	"slices"
)

// message builds a protocol buffer message field by field.
type message []byte

func (m message) tag(field, wire int) message {
	return binary.AppendUvarint(m, uint64(field)<<3|uint64(wire))
}

func (m message) int(field int, v int64) message {
	return binary.AppendUvarint(m.tag(field, 0), uint64(v))
}

func (m message) bytes(field int, v []byte) message {
	return append(binary.AppendUvarint(m.tag(field, 2), uint64(len(v))), v...)
}

// compileOptions encodes xla.CompileOptionsProto for one replica on device 0 of the topology, with flags as env_option_overrides. libtpu
// refuses empty options, so required ones are always written.
func compileOptions(flags map[string]string) []byte {
	device := message{}.bytes(1, []byte{0})                                // ComputationDevice.replica_device_ids, packed
	assignment := message{}.int(1, 1).int(2, 1).bytes(3, device)           // DeviceAssignmentProto: 1 replica, 1 computation
	build := message{}.int(1, -1).int(4, 1).int(5, 1).bytes(9, assignment) // device_ordinal, replicas, partitions
	m := message{}.bytes(3, build)                                         // executable_build_options
	for _, name := range slices.Sorted(maps.Keys(flags)) {
		value := message{}.bytes(1, []byte(flags[name])) // OptionOverrideProto.string_field
		m = m.bytes(7, message{}.bytes(1, []byte(name)).bytes(2, value))
	}
	return m
}
