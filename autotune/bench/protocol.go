package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Preset is a named protocol with a time limit for one workload.
type Preset struct {
	Name, Doc string
	Protocol
	Limit time.Duration
}

// contestLimit is the time limit of a workload in official runs.
const contestLimit = 300 * time.Second

// Presets are the protocols in common use. None of them changes tolerances.
var Presets = []Preset{
	{"default", "FlashInfer-Bench's own, trials of slow programs cut after a second", DefaultProtocol, contestLimit},
	{"run-local", "of the contest's starter kit, run_local", Protocol{Warmup: 3, Iterations: 100, Trials: 5, Cold: true, InPlace: true}, contestLimit},
	{"contest-decode", "of official runs of decode: FlashInfer-Bench's own, not cut", Protocol{Warmup: 10, Iterations: 50, Trials: 3, Cold: true, InPlace: true}, contestLimit},
	{"contest-prefill", "of official runs of prefill", Protocol{Warmup: 1, Iterations: 5, Trials: 3, Cold: true, InPlace: true}, contestLimit},
}

// PresetHelp lists the presets for a help text.
func PresetHelp() string {
	var l []string
	for _, p := range Presets {
		l = append(l, fmt.Sprintf("%s (%s: %d, %d, %d)", p.Name, p.Doc, p.Warmup, p.Iterations, p.Trials))
	}
	return strings.Join(l, "; ")
}

// ReadPreset returns a preset by name, or reads one from a file of JSON (a name ending in .json, or "-"). Missing fields have the default's values.
func ReadPreset(name string, read func(file string) ([]byte, error)) (Preset, error) {
	var names []string
	for _, p := range Presets {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	if !strings.HasSuffix(name, ".json") && name != "-" {
		return Preset{}, fmt.Errorf("unknown protocol %q (known: %s; others are files of JSON)", name, strings.Join(names, " "))
	}
	text, err := read(name)
	if err != nil {
		return Preset{}, err
	}
	p := Preset{Name: name, Protocol: DefaultProtocol, Limit: contestLimit}
	times := struct {
		*Protocol
		Measure *span `json:"measure"` // hides the Protocol's, which counts nanoseconds
		Limit   *span `json:"limit"`
	}{&p.Protocol, (*span)(&p.Measure), (*span)(&p.Limit)}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&times); err != nil {
		return p, fmt.Errorf("%s: %w (known: warmup iterations trials measure limit cold in_place statistic)", name, err)
	}
	if err := p.Check(); err != nil {
		return p, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// span is a duration in words, such as "90s".
type span time.Duration

func (s *span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q: want a duration such as \"90s\"", text)
	}
	*s = span(d)
	return nil
}
