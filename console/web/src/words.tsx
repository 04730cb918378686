// What the words of the page mean.

const words: [string, string][] = [
  ["Ring", "One whole copy of the data, spread over the data centers of the ring."],
  ["Slot, shard, owner", "A key belongs to one of 4096 slots. In each ring one shard owns the slot: it stores the key for this ring."],
  ["Coordinator", "Accepts the writes of its data center into a log on disk, and sends them to the owner of their key in each ring."],
  ["Middleman", "The process in front of the storage of a shard. It makes a write visible once all that the write depends on is there."],
  ["Cache", "Keeps values that clients of its data center have read and that every ring has. It drops a value before a newer one completes."],
  ["Sidecar", "Speaks the Redis protocol to clients, and decides for each read which rings it may go to. Near copies are values that it keeps in its own memory for a moment."],
  ["Session, connection", "A session is what reads its own writes and never goes back. All connections to one sidecar are one session, which stays when no client is connected, unless sessions are set to one for each connection."],
  ["Received, visible, acknowledged", "The three steps of a write in a ring: its owner has got it; readers of the ring can see it; the ring has it with all that it depends on, no cache of the ring holds an older value, and the coordinator that has accepted it knows. So the way of the acknowledgement back to that coordinator counts."],
  ["In flight, complete", "A write is in flight until every ring has acknowledged it. Then it is complete, and any session may read it anywhere. A trace shows it as complete when the session that wrote it knows, a moment after the last acknowledgement has come to the coordinator."],
  ["Bound, released", "A session that has read a value in flight is bound: it reads only from rings that have the value, as elsewhere it could see an older state. It is released when the value is complete."],
  ["Stability lag", "The age of the newest moment up to which all writes that a data center has accepted are complete, as it knows itself. It is small also where nothing is written."],
  ["Stable state", "What is complete of the writes of all data centers together. While one ring misses writes, it grows older in every data center at once. It does so too while a coordinator is down or a data center is cut off, even if nothing is written: nobody hears then up to where its writes are complete."],
  ["Origin, skew", "An origin is the coordinator that has accepted a write: one in another data center, if none can take it where it is made. The skew is how far the newest of them is ahead of the oldest one."],
  ["Round trip, declared", "The number on a line of the map is the measured time to the other data center and back, in milliseconds. The declared one is what the topology says it should be."],
  ["Epoch", "The number of the topology. It grows when data centers, shards or caches change."],
];

export function Words() {
  return (
    <details class="words">
      <summary>What the words mean</summary>
      <dl>{words.map(([word, means]) => <div key={word}><dt>{word}</dt><dd>{means}</dd></div>)}</dl>
    </details>
  );
}
