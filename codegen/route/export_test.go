package route

// Last is what the form asked for last shares.
func (c *Cells) Last() any { return c.kept[len(c.kept)-1] }

// Kept is how many bases are kept.
func (c *Cells) Kept() int { return len(c.kept) }
