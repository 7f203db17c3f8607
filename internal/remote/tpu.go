package remote

import (
	"cmp"
	"net/url"
	"os"
	"regexp"
	"strings"
)

// GcloudEnv is the environment variable with a program to use instead of gcloud.
const GcloudEnv = "GDNGEN_GCLOUD"

func gcloud() string { return cmp.Or(os.Getenv(GcloudEnv), "gcloud") }

var cloudName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,61}$`)

// openTPU reaches the first host of a TPU machine by gcloud, which knows keys, addresses and the project. A name alone
// is a held machine in the zone of its lease, which may have changed since it was first taken.
func openTPU(rest string) (Place, error) {
	if cloudName.MatchString(rest) {
		l, err := leaseOf(rest)
		if err != nil {
			return nil, err
		}
		return openTPU(strings.TrimPrefix(l.Place(), "tpu:"))
	}
	name, query, _ := strings.Cut(rest, "?")
	values, err := url.ParseQuery(query)
	zone := values.Get("zone")
	if err != nil || !cloudName.MatchString(name) || !cloudName.MatchString(zone) {
		return nil, badPlace("place tpu:%s: want tpu:NAME?zone=Z[&project=P]", rest)
	}
	via := []string{gcloud(), "compute", "tpus", "tpu-vm", "ssh", name, "--zone", zone, "--worker=0", "--quiet"}
	for key := range values {
		switch key {
		case "zone":
		case "project":
			via = append(via, "--project", values.Get(key))
		default:
			return nil, badPlace("place tpu:%s: unknown %q (known: zone, project)", rest, key)
		}
	}
	return &machinePlace{"tpu:" + rest, &SSH{Host: "tpu:" + name, Via: append(via, "--command")}}, nil
}
