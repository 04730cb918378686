package cost

// Capex is the model of compute and storage. Both are relative to full replication, per operation.
type Capex struct {
	DataCenters int
	Rings       int
	// MissRatio is the share of gets that the cache of the data center cannot answer.
	MissRatio float64
	// MissOperations is what a missed get costs in addition to its answer by a storage server: the failed cache lookup
	// and the cache fill.
	MissOperations float64
	// CacheShare is the share of servers that are caches. Their storage scales with operations, not with copies.
	CacheShare float64
}

// Operations returns how many operations servers execute per operation of a client, with rings and with full
// replication.
func (c Capex) Operations(putFraction float64) (rings, full float64) {
	w := putFraction
	rings = w*float64(c.Rings) + (1-w)*(1+c.MissRatio*c.MissOperations)
	full = w*float64(c.DataCenters) + (1 - w)
	return rings, full
}

// Compute returns the compute cost with rings as a share of that with full replication.
func (c Capex) Compute(putFraction float64) float64 {
	rings, full := c.Operations(putFraction)
	return rings / full
}

// Storage returns the storage cost with rings as a share of that with full replication.
func (c Capex) Storage(putFraction float64) float64 {
	copies := float64(c.Rings) / float64(c.DataCenters)
	return (1-c.CacheShare)*copies + c.CacheShare*c.Compute(putFraction)
}

// Saving returns the share of the cost of full replication that rings save, if storage is the share alpha of the cost
// of a server and compute is the rest.
func (c Capex) Saving(putFraction, alpha float64) float64 {
	return 1 - alpha*c.Storage(putFraction) - (1-alpha)*c.Compute(putFraction)
}

// AlphaFor is the inverse of Saving: the storage share at which rings save that much. It is outside of 0 to 1 if no
// storage share gives that saving, and NaN if the saving does not depend on it.
func (c Capex) AlphaFor(putFraction, saving float64) float64 {
	compute, storage := c.Compute(putFraction), c.Storage(putFraction)
	return (1 - compute - saving) / (storage - compute)
}
