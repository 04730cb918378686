package contract

// Loss is what a member of a coordinator or shard knows of a log, or of data, that are lost, and of how far they are
// given up.
type Loss struct {
	// Coordinator or Shard names it: DATA-CENTER/INDEX. Who gives it up types this.
	Coordinator string `json:"coordinator,omitempty"`
	Shard       string `json:"shard,omitempty"`
	// Epoch is that of the group, which the person has seen who decides.
	Epoch uint64 `json:"epoch"`
	// Lost says that all volumes of the group are lost, or that the log began empty although others know of writes that
	// it held; of a shard also that the volumes of some members are lost, and the others, which are Absent, are not
	// heard of.
	Lost   bool   `json:"lost"`
	Absent []int  `json:"absent,omitempty"`
	Reason string `json:"reason"`
	// OneRing says of a shard that no other ring has its data.
	OneRing bool `json:"oneRing,omitempty"`
	// Serves says of a shard that this member serves.
	Serves bool `json:"serves,omitempty"`
	// Membership is empty if this member does not serve.
	Membership Membership `json:"membership,omitempty"`
	// Progress says how far the log is given up, and what it waits for. It is empty before and after.
	Progress string `json:"progress,omitempty"`
	// Begun says that the log that takes the place of the lost one has begun: if it is lost, that is another loss.
	Begun bool `json:"begun,omitempty"`
	// ServedBy is another member that serves, as this one says that follows it; it knows how far the log is given up.
	// 0: this one does, or none is known.
	ServedBy int `json:"servedBy,omitempty"`
}
