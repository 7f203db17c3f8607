package ladder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/gdngen/gdngen/autotune"
	"github.com/gdngen/gdngen/gdn"
	"github.com/gdngen/gdngen/gdn/model"
	"github.com/gdngen/gdngen/ir/target"
)

// Config is the configuration of one climb. It is the first record of its folder.
type Config struct {
	Kernel    string        `json:"kernel"`  // spec
	Base      string        `json:"base"`    // variant
	Variant   string        `json:"variant"` // the candidate
	Target    string        `json:"target"`  // of all rungs except guards
	Layer     *model.Config `json:"layer,omitempty"`
	Model     *model.Config `json:"model,omitempty"`
	Guards    []Guard       `json:"guards,omitempty"`
	Precision string        `json:"precision,omitempty"` // the lowest allowed; empty: a search's default
	Forward   bool          `json:"forward,omitempty"`   // layer and model without their backward pass

	MinGain       float64 `json:"min_gain"`       // least gain of each rung, as a share; a static kernel may gain anything
	MaxRegression float64 `json:"max_regression"` // default share that a guard may lose
	Goal          float64 `json:"goal,omitempty"` // wanted model flop utilisation; 0: none
	Repeat        int     `json:"repeat"`         // pairs of runs on a device
	Seed          uint64  `json:"seed"`           // for hold-out inputs and shapes
	Device        string  `json:"device,omitempty"`
}

// Guard is a spec and target that the candidate may slow down at most by a share.
type Guard struct {
	Spec   string  `json:"spec"`
	Target string  `json:"target"`
	Share  float64 `json:"share"`
}

func (g Guard) String() string { return g.Spec + "@" + g.Target }

// ParseGuard parses SPEC@TARGET=SHARE. The default share is most.
func ParseGuard(text string, most float64) (Guard, error) {
	g := Guard{Share: most}
	i := strings.LastIndexByte(text, '@')
	if i < 1 {
		return g, fmt.Errorf("%q: want SPEC@TARGET=SHARE, such as bench@v5e=1%%", text)
	}
	generation, share, given := strings.Cut(text[i+1:], "=")
	if given {
		var ok bool
		if g.Share, ok = autotune.ParseShare(share); !ok {
			return g, fmt.Errorf("%q: %q is no share, such as 1%%", text, share)
		}
	}
	t, err := target.Lookup(generation)
	if err != nil {
		return g, fmt.Errorf("%q: %w", text, err)
	}
	s, err := gdn.Parse(text[:i])
	if err != nil {
		return g, fmt.Errorf("%q: %w", text, err)
	}
	g.Spec, g.Target = s.String(), t.Name
	return g, nil
}

// DefaultGuards returns the kernel on the other targets, and its training step if it is a forward pass.
func DefaultGuards(s gdn.Spec, target string, others []*target.Target, most float64) (l []Guard) {
	for _, t := range others {
		if t.Name != target {
			l = append(l, Guard{s.String(), t.Name, most})
		}
	}
	if back := s; s.Direction == gdn.Forward {
		back.Direction = gdn.Train
		if back.Validate() == nil {
			l = append(l, Guard{back.String(), target, most})
		}
	}
	return l
}

// DefaultRepeat is the default number of pairs of runs on a device.
const DefaultRepeat = 12

// Read reads a configuration in JSON, in the form of a climb's first record. Missing fields have the defaults of the command's flags.
func Read(r io.Reader) (Config, error) {
	c := Config{Kernel: "bench", Target: "v6e", MinGain: .01, MaxRegression: .01, Repeat: DefaultRepeat}
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return c, fmt.Errorf("want a comparison in JSON, by the names of the first record of %s: %w", JournalName, err)
	}
	for _, m := range []*model.Config{c.Layer, c.Model} {
		if m == nil {
			continue
		}
		if err := m.Validate(); err != nil {
			return c, err
		}
	}
	return c, c.check()
}

// ParseGoal parses mfu=SHARE; "" means no goal and returns 0.
func ParseGoal(text string) (float64, error) {
	if text == "" {
		return 0, nil
	}
	x, ok := autotune.ParseShare(strings.TrimPrefix(text, "mfu="))
	if !ok || x == 0 || x > 1 {
		return 0, fmt.Errorf("%q: want mfu=SHARE, such as mfu=50%%", text)
	}
	return x, nil
}

// check completes texts to their full form, and draws a seed if there is none.
func (c *Config) check() error {
	s, err := gdn.Parse(c.Kernel)
	if err != nil {
		return err
	}
	c.Kernel = s.String()
	if _, err := target.Lookup(c.Target); err != nil {
		return err
	}
	for _, text := range []string{c.Base, c.Variant} {
		if text == "" {
			return errors.New("a ladder compares two variants: the base and the candidate")
		}
	}
	if c.Repeat < 1 {
		return fmt.Errorf("%d pairs of runs: at least one is needed", c.Repeat)
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64()>>11 | 1 // 53 bits, exact in any JSON reader
	}
	return nil
}
