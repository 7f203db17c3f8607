package remote

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// describer is a place that can describe itself.
type describer interface {
	describe(ctx context.Context) (string, error)
}

// Examine tests a place by the calls that begin a job. It returns a description of what answered, or an error naming the failed call.
func Examine(ctx context.Context, text string) (said string, err error) {
	p, full, err := Parse(text)
	if err != nil {
		return "", err
	}
	said = full
	if d, ok := p.(describer); ok {
		is, err := d.describe(ctx)
		if err != nil {
			return "", fmt.Errorf("%s: %w", full, err)
		}
		said += ": " + is
	}
	jobs, err := p.List(ctx)
	if err != nil {
		return "", fmt.Errorf("%s: listing jobs: %w", full, err)
	}
	going := 0
	for _, j := range jobs {
		if !j.State.Phase.Done() {
			going++
		}
	}
	return fmt.Sprintf("%s; %d jobs, %d of them going on", said, len(jobs), going), nil
}

// describe asks for the version, and for the nodes with their resources.
func (p *rayPlace) describe(ctx context.Context) (string, error) {
	var version struct {
		Ray string `json:"ray_version"`
	}
	if err := p.call(ctx, http.MethodGet, "/api/version", nil, &version); err != nil {
		return "", fmt.Errorf("GET /api/version: %w", err)
	}
	var answer struct {
		Data struct {
			Result struct {
				Result []struct {
					State     string             `json:"state"`
					Resources map[string]float64 `json:"resources_total"`
				} `json:"result"`
			} `json:"result"`
		} `json:"data"`
	}
	said := "Ray " + version.Ray
	q := url.Values{"detail": {"1"}}
	if err := p.call(ctx, http.MethodGet, "/api/v0/nodes?"+q.Encode(), nil, &answer); err != nil {
		return said + ", which does not list its nodes", nil // older versions
	}
	alive, has := 0, map[string]float64{}
	for _, n := range answer.Data.Result.Result {
		if n.State == "ALIVE" {
			alive++
			has["CPU"] += n.Resources["CPU"]
			has["TPU"] += n.Resources["TPU"]
			has["GPU"] += n.Resources["GPU"]
		}
	}
	said += fmt.Sprintf(", %d nodes", alive)
	for _, name := range []string{"CPU", "TPU", "GPU"} {
		if has[name] > 0 {
			said += fmt.Sprintf(", %g %s", has[name], name)
		}
	}
	return said, nil
}

// describe asks for the system, its processors and its TPU devices.
func (m *machinePlace) describe(ctx context.Context) (string, error) {
	text, err := m.ssh.Run(ctx, `uname -sm; nproc; ls -d /dev/accel* /dev/vfio/[0-9]* 2>/dev/null | wc -l`, nil)
	if err != nil {
		return "", err
	}
	l := strings.Split(strings.TrimSpace(text), "\n")
	if len(l) != 3 {
		return "", fmt.Errorf("it answers %q to uname, nproc and ls", strings.TrimSpace(text))
	}
	return fmt.Sprintf("%s, %s processors, %s devices of TPUs", l[0], strings.TrimSpace(l[1]), strings.TrimSpace(l[2])), nil
}
