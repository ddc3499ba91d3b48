/**
 * Failure of a cluster.
 */
import * as Schema from "effect/Schema"

/** The database of the cluster cannot be used, or a runner may not join. `message` says why and what to do. */
export class ClusterError extends Schema.TaggedError<ClusterError>("hermes-effect/ClusterError")("ClusterError", {
  message: Schema.String,
  cause: Schema.optional(Schema.Defect())
}) {}
