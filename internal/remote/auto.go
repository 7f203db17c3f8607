package remote

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"
)

// Auto asks for configured values: of the place, of the resources on a Ray cluster, of a machine's type and zone.
const Auto = "auto"

// Environment variables for the type and the zone of a machine, if those are auto.
const (
	TypeEnv = "GDNGEN_TPU_TYPE"
	ZoneEnv = "GDNGEN_TPU_ZONE"
)

// FindPlace returns the place for Auto, and the reason: the value of OnEnv, the held machine, or the only name in the user's file.
func FindPlace() (place, why string, err error) {
	if on := os.Getenv(OnEnv); on != "" && on != Auto {
		return on, "it is " + OnEnv, nil
	}
	dir, err := LeasesDir()
	if err != nil {
		return "", "", err
	}
	held, err := Leases(dir)
	if err != nil {
		return "", "", err
	}
	var known []string
	for _, l := range held {
		known = append(known, "tpu:"+l.Name)
	}
	if len(held) == 1 {
		return known[0], "it is held", nil
	}
	file, names, err := userPlaces()
	if err != nil {
		return "", "", err
	}
	if len(held) == 0 {
		known = slices.Sorted(maps.Keys(names))
	}
	switch len(known) {
	case 0:
		return "", "", badPlace("where? no place is configured: give --on PLACE, set %s, name one in %s, or hold a machine by gdngen remote hold", OnEnv, file)
	case 1:
		return known[0], "it is the only name in " + file, nil
	}
	return "", "", badPlace("where? there are several places: give --on with one of %s", strings.Join(known, " "))
}

// counting is a place that counts reserved resources.
type counting interface {
	// accelerators returns those of one node that a job can reserve, by name; empty if there are none.
	accelerators(ctx context.Context) (map[string]float64, error)
}

// Reserve sets a job's resources to the accelerators of one node, if its place counts any.
func (j *Job) Reserve(ctx context.Context, p Place) error {
	c, ok := p.(counting)
	if !ok {
		return nil
	}
	found, err := c.accelerators(ctx)
	if err == nil && len(found) == 0 {
		err = badPlace("--resource auto: no node of %s that is alive has a TPU or a GPU: name what the job reserves, such as --resource TPU=4", j.Place)
	}
	j.Resources = found
	return err
}

// accelerators asks the cluster for its living nodes and returns the most TPUs, or else GPUs, of one node.
func (p *rayPlace) accelerators(ctx context.Context) (map[string]float64, error) {
	var answer struct {
		Data struct {
			Result struct {
				Nodes []struct {
					State string             `json:"state"`
					Total map[string]float64 `json:"resources_total"`
				} `json:"result"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := p.call(ctx, "GET", "/api/v0/nodes", nil, &answer); err != nil {
		return nil, err
	}
	for _, name := range []string{"TPU", "GPU"} {
		most := 0.
		for _, n := range answer.Data.Result.Nodes {
			if n.State == "ALIVE" {
				most = max(most, n.Total[name])
			}
		}
		if most > 0 {
			return map[string]float64{name: most}, nil
		}
	}
	return nil, nil
}
