package codegen

import "github.com/gdngen/gdngen/ir/target"

// The names that backends and their callers have for what package target says.
type (
	Target             = target.Target
	GPU                = target.GPU
	UnknownTargetError = target.UnknownError
)

// Targets lists the supported generations, oldest first.
func Targets() []*Target { return target.All() }

// TargetNames lists the names of the targets.
func TargetNames() []string { return target.Names() }

// LookupTarget finds a target by name; see [target.Lookup].
func LookupTarget(name string) (*Target, error) { return target.Lookup(name) }

// ParseTargets reads names of targets, separated by commas; see [target.Parse].
func ParseTargets(text string) ([]*Target, error) { return target.Parse(text) }

// TargetOfKind finds the target that a device is of; see [target.OfKind].
func TargetOfKind(kind string) (*Target, error) { return target.OfKind(kind) }
