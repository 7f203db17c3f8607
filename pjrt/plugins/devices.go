package plugins

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/gdngen/gdngen/ir/target"
)

// pciRoot is where the kernel lists PCI devices.
const pciRoot = "/sys/bus/pci/devices"

const (
	vendorGoogle = "0x1ae0"
	vendorNVIDIA = "0x10de"
	vendorAMD    = "0x1002"
	classDisplay = "0x03"   // display controllers
	classAccel   = "0x1200" // processing accelerators
)

// pciDevice is one PCI function; numbers are as the kernel writes them: 0x1ae0.
type pciDevice struct{ vendor, device, class string }

func listPCI(root string) []pciDevice {
	dirs, _ := filepath.Glob(filepath.Join(root, "*"))
	var out []pciDevice
	for _, dir := range dirs {
		read := func(name string) string {
			b, _ := os.ReadFile(filepath.Join(dir, name))
			return strings.TrimSpace(string(b))
		}
		out = append(out, pciDevice{read("vendor"), read("device"), read("class")})
	}
	return out
}

// tpusOf returns the generation of each TPU chip.
func tpusOf(devices []pciDevice) []string {
	var out []string
	for _, d := range devices {
		if t := target.OfPCI(d.device); t != nil && d.vendor == vendorGoogle {
			out = append(out, t.Name)
		}
	}
	return out
}

// AttachedTPUs returns the generation of each TPU chip of this machine.
func AttachedTPUs() []string { return tpusOf(listPCI(pciRoot)) }

// gpusOf returns the vendor of each GPU.
func gpusOf(devices []pciDevice) []string {
	var out []string
	for _, d := range devices {
		if !strings.HasPrefix(d.class, classDisplay) && !strings.HasPrefix(d.class, classAccel) {
			continue
		}
		switch d.vendor {
		case vendorNVIDIA:
			out = append(out, "NVIDIA")
		case vendorAMD:
			out = append(out, "AMD")
		}
	}
	return out
}
