package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gdngen/gdngen/autotune/strategy"
)

func directiveNames() (names []string) {
	for _, d := range strategy.Directives {
		names = append(names, d.Name)
	}
	return names
}

func directiveDocs() string {
	var l []string
	for _, d := range strategy.Directives {
		l = append(l, fmt.Sprintf("%s (%s: %s)", d.Name, d.Doc, strings.Join(d.Axes(), " ")))
	}
	return strings.Join(l, "; ")
}

// parseGuards reads entries TARGET or TARGET=SHARE, a share being a number or percent.
func parseGuards(entries []string) (map[string]float64, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	guards := map[string]float64{}
	for _, entry := range entries {
		name, text, given := strings.Cut(entry, "=")
		if _, err := parseTargets(name); err != nil {
			return nil, err
		}
		share := 0.
		if given {
			var ok bool
			if share, ok = parseShare(text); !ok {
				return nil, usage(fmt.Errorf("--guard %q: want TARGET=SHARE, such as v5e=2%%", entry))
			}
		}
		guards[name] = share
	}
	return guards, nil
}

// parseShare reads a number or percent, zero or more.
func parseShare(text string) (share float64, ok bool) {
	number, isPercent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if isPercent {
		x /= 100
	}
	return x, err == nil && x >= 0
}
