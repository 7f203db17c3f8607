package remote

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// SetEnv sets the variables of a job: NAME=VALUE, or NAME for its local value.
func (j *Job) SetEnv(texts []string) error {
	j.Env = map[string]string{}
	for _, text := range texts {
		name, value, given := strings.Cut(text, "=")
		if !given {
			var ok bool
			if value, ok = os.LookupEnv(name); !ok {
				return badPlace("--env %s: it is not set here", name)
			}
		}
		j.EnvNames, j.Env[name] = append(j.EnvNames, name), value
	}
	return nil
}

// SetResources sets a job's resources besides processors: NAME=NUMBER.
func (j *Job) SetResources(texts []string) error {
	for _, pair := range texts {
		name, text, _ := strings.Cut(pair, "=")
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n > 0) {
			return badPlace("--resource %s=%s: want a positive number", name, text)
		}
		if j.Resources == nil {
			j.Resources = map[string]float64{}
		}
		j.Resources[name] = n
	}
	return nil
}

// Lines returns the lines of a text that match a pattern; only the last ones if last is positive.
func Lines(text string, pattern *regexp.Regexp, last int) string {
	all := slices.Collect(strings.Lines(text))
	all = slices.DeleteFunc(all, func(l string) bool { return !pattern.MatchString(strings.TrimRight(l, "\n")) })
	if last > 0 {
		all = all[max(0, len(all)-last):]
	}
	return strings.Join(all, "")
}

// WriteJobs prints submitted jobs.
func WriteJobs(w io.Writer, l []*Job) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, j := range l {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", j.ID, j.Submitted.Local().Format(time.DateTime), j.Place, strings.Join(j.Command, " "))
	}
	t.Flush()
}

// WriteListed prints the jobs of a place.
func WriteListed(w io.Writer, l []Listed) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, j := range l {
		fmt.Fprintf(t, "%s\t%s\t%d\n", j.ID, j.State.Phase, j.State.Exit)
	}
	t.Flush()
}

// String describes a held machine.
func (l *Lease) String() string {
	until := ""
	if !l.Until.IsZero() {
		until = " until " + l.Until.Local().Format(time.DateTime)
	}
	return fmt.Sprintf("%s, %s, held since %s%s by process %d", l.Place(), l.Type, l.Start.Local().Format(time.DateTime), until, l.PID)
}
