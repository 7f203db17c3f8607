package judge

import (
	"testing"
	"time"

	"github.com/gdngen/gdngen/autotune/measure"
	"github.com/gdngen/gdngen/gdn"
)

// What tests of whole searches, which are outside of this package, ask of it.

// DevicePairs are the runs on a device, TinyClasses and DeviceClasses how many classes of inputs a gate examines.
const DevicePairs = devicePairs

var TinyClasses, DeviceClasses = len(tinyClasses), len(deviceClasses)

// OpenLab opens a real evaluator, or skips the test where its machinery is missing.
func OpenLab(t *testing.T, o LabOptions) *Lab { return lab(t, o) }

// ParseSpec reads a spec.
func ParseSpec(t *testing.T, text string) gdn.Spec { return spec(t, text) }

// SetTimeout gives each compile so long.
func (l *Lab) SetTimeout(d time.Duration) { l.limits.fixed = d }

// DumpFolders lists the folders of schedules that are there now.
func (l *Lab) DumpFolders() []string { return l.dumpFolders() }

// SetPrograms has a candidate be compiled as other programs.
func (w *Work) SetPrograms(l ...*measure.Program) { w.artifacts().programs = l }

// Lose has the compiler of Triton be nowhere.
func (l *GPULab) Lose() { l.toolkit.Path = "/nowhere" }
