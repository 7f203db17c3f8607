package gdn

// Standing is a named variant and whether it can be used for a spec.
type Standing struct {
	Name      string `json:"name"`
	Doc       string `json:"doc"`
	Variant   string `json:"variant"`
	Cell      string `json:"cell"` // the structural axes
	Precision string `json:"precision"`
	Status    string `json:"status"` // ok, negative, unsafe or illegal
	Reason    string `json:"reason,omitempty"`
	Hash      string `json:"hash"`
}

// Standings returns every named variant with its status for s.
func Standings(s Spec) ([]Standing, error) {
	var rows []Standing
	for _, n := range Variants {
		v, err := ParseVariant(n.Text)
		if err != nil {
			return nil, err
		}
		rows = append(rows, n.standing(v, s))
	}
	return rows, nil
}

func (n NamedVariant) standing(v Variant, s Spec) Standing {
	r := Standing{Name: n.Name, Doc: n.Doc, Variant: v.String(), Cell: v.Cell(), Precision: v.Precision().String(), Status: "ok", Hash: v.Hash()}
	if err := v.Check(s); err != nil {
		r.Status, r.Reason = "illegal", err.Error()
		return r
	}
	r.Reason = v.Unsafe(s)
	switch {
	case n.Negative:
		r.Status = "negative"
	case r.Reason != "":
		r.Status = "unsafe"
	}
	return r
}
