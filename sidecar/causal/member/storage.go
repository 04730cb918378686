package member

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/group"
	"github.com/causalstore/causalstore/sidecar/topology"
)

// StorageConfig configures a Storage.
type StorageConfig struct {
	Self     topology.Node // the member
	Topology *topology.Topology
	// Volume is the id of the volume of the log. Damaged says that it holds less than it had acknowledged.
	Volume  uint64
	Damaged bool
	// Found is what the storage says about itself; zero: nothing. Empty says that it holds no key and no metadata of a middleman.
	Found Applied
	Empty bool
	// MaxLogBytes bounds the log; 0: MaxLogBytesInMemory. RetainBytes of applied changes are kept for members that were away; 0: 32 MiB.
	MaxLogBytes, RetainBytes int
	Broken                   causal.Faults
	// Tune changes the options of the group; nil: the defaults.
	Tune func(*group.Options)
}

// Storage is the state machine of one member of a shard's group.
type Storage struct{ groupMember }

// NewStorage starts a member on a disk that holds image.
func NewStorage(cfg StorageConfig, image *group.Image, now causal.Now) *Storage { return &Storage{} }

func (s *Storage) Step(now causal.Now, m *causal.Message)                  {}
func (s *Storage) Tick(now causal.Now)                                     {}
func (s *Storage) NextTick(now causal.Now) int64                           { return causal.Never }
func (s *Storage) LinkUp(now causal.Now, n topology.Node)                  {}
func (s *Storage) Appended(now causal.Now, index uint64)                   {}
func (s *Storage) Take(dst []causal.Message) []causal.Message              { return dst }
func (s *Storage) Leadership() causal.Leadership                           { return causal.Leadership{} }
func (s *Storage) LogBytes() int                                           { return 0 }
func (s *Storage) Failure() error                                          { return nil }
func (s *Storage) Session() uint64                                         { return 0 }
func (s *Storage) HoldsLease(now causal.Now) bool                          { return false }
func (s *Storage) Propose(now causal.Now, c Change) (id uint64, err error) { return 0, nil }
func (s *Storage) Done(dst []uint64) []uint64                              { return dst }
func (s *Storage) Tasks(dst []StorageTask) []StorageTask                   { return dst }
func (s *Storage) TaskDone(now causal.Now, id uint64, r StorageTaskResult) {}
func (s *Storage) SetStorageResponds(now causal.Now, ok bool)              {}
