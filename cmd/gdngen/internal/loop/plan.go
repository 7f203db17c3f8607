package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// PlanName is the file that an agent is asked to write into its folder. The loop reads it and leaves it out of the commit.
const PlanName = "iteration.json"

// maxPlan bounds it in bytes.
const maxPlan = 1 << 20

// Plan is the agent's description of its iteration. Shares are of the figure: .1 is 10 % less.
type Plan struct {
	Hypothesis string `json:"hypothesis,omitempty"`
	Bottleneck string `json:"bottleneck,omitempty"`
	Gain       Share  `json:"gain,omitempty"` // expected
	Risk       Share  `json:"risk,omitempty"`
	Shortlist  []Idea `json:"shortlist,omitempty"`
	Next       *Idea  `json:"next,omitempty"`
	Scaffold   string `json:"scaffold,omitempty"` // what it prepares, if it gains nothing itself
	Blocked    *Block `json:"blocked,omitempty"`
}

// Idea is a change that the agent considered.
type Idea struct {
	Change  string `json:"change"`
	Gain    Share  `json:"gain,omitempty"`
	Risk    Share  `json:"risk,omitempty"`
	Command string `json:"command,omitempty"` // to test it
}

// Block is an outside reason that stopped an agent.
type Block struct {
	Command string `json:"command"`
	Text    string `json:"text"`
}

// Share is a fraction of one. In JSON it may also be a string with a per cent sign.
type Share float64

// UnmarshalJSON reads .1 and "10%".
func (s *Share) UnmarshalJSON(text []byte) error {
	var word string
	if json.Unmarshal(text, &word) == nil {
		x, err := ParseShare(word)
		*s = Share(x)
		return err
	}
	return json.Unmarshal(text, (*float64)(s))
}

func (s Share) String() string { return fmt.Sprintf("%.3g %%", 100*float64(s)) }

// fall describes a gain in words.
func fall(gain float64) string {
	if gain < 0 {
		return fmt.Sprintf("%v more", Share(-gain))
	}
	return fmt.Sprintf("%v less", Share(gain))
}

// UnmarshalJSON reads an object, or a string with only the change.
func (i *Idea) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &i.Change) == nil {
		return nil
	}
	type plain Idea
	return json.Unmarshal(text, (*plain)(i))
}

// readPlan reads the agent's plan, if there is one. Notes name its faults; the change is judged anyway.
func readPlan(dir string, least float64) (p *Plan, notes []string) {
	path := filepath.Join(dir, PlanName)
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, []string{"the agent wrote no " + PlanName}
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxPlan {
		return nil, []string{PlanName + " is no regular file of at most 1 MiB"}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, []string{err.Error()}
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxPlan))
	if err == nil {
		p = new(Plan)
		err = json.Unmarshal(text, p)
	}
	if err != nil {
		return nil, []string{PlanName + " can not be read: " + clip(err.Error(), 200)}
	}
	p.tidy()
	if len(p.Shortlist) < 3 && p.Blocked == nil {
		notes = append(notes, fmt.Sprintf("a shortlist of %d, and 3 were asked", len(p.Shortlist)))
	}
	if float64(p.Gain) < least && p.Blocked == nil && p.Scaffold == "" {
		notes = append(notes, fmt.Sprintf("expected gain %v, and %v was asked", p.Gain, Share(least)))
	}
	return p, notes
}

// tidy makes every text one plain line, since it goes into commits, logs and prompts.
func (p *Plan) tidy() {
	const most = 600
	for _, t := range []*string{&p.Hypothesis, &p.Bottleneck, &p.Scaffold} {
		*t = clip(*t, most)
	}
	p.Shortlist = p.Shortlist[:min(len(p.Shortlist), 10)]
	for i := range p.Shortlist {
		p.Shortlist[i].Change, p.Shortlist[i].Command = clip(p.Shortlist[i].Change, most), clip(p.Shortlist[i].Command, most)
	}
	if p.Next != nil {
		p.Next.Change, p.Next.Command = clip(p.Next.Change, most), clip(p.Next.Command, most)
	}
	if p.Blocked != nil {
		p.Blocked.Command, p.Blocked.Text = clip(p.Blocked.Command, most), clip(p.Blocked.Text, most)
	}
}

// ParseShare parses 2% or .02.
func ParseShare(text string) (float64, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	var x float64
	if n, err := fmt.Sscanf(strings.TrimSpace(number)+" ", "%g ", &x); n != 1 || err != nil && !errors.Is(err, io.EOF) || !(x >= 0) || x > 1e6 {
		return 0, fmt.Errorf("%q is no share: want a number such as .02 or 2%%", text)
	}
	if percent {
		x /= 100
	}
	return x, nil
}
