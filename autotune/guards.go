package autotune

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/ir/target"
)

// ParseGuards reads entries TARGET or TARGET=SHARE; a share is a number or a percentage. Without entries it returns nil.
func ParseGuards(entries []string) (map[string]float64, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	guards := map[string]float64{}
	for _, entry := range entries {
		name, text, given := strings.Cut(entry, "=")
		if _, err := target.Parse(name); err != nil {
			return nil, err
		}
		share := 0.
		if given {
			var ok bool
			if share, ok = ParseShare(text); !ok || share >= 1 {
				return nil, fmt.Errorf("--guard %q: want TARGET=SHARE with a share below 1, such as v5e=2%% or v5e=.02", entry)
			}
		}
		guards[name] = share
	}
	return guards, nil
}

// ParseShare reads a number or a percentage; ok is false below zero.
func ParseShare(text string) (share float64, ok bool) {
	number, isPercent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if isPercent {
		x /= 100
	}
	return x, err == nil && x >= 0
}
