/** Stored answers to the questions of executions. */
import * as Schema from "effect/Schema"
import * as DurableDeferred from "effect/workflow/DurableDeferred"

/** Stored form of an answer. `id` identifies the caller that gave it. */
const Answer = Schema.Struct({ id: Schema.String, value: Schema.Unknown })

/** Returns the durable deferred that holds the answer to one round of a question. */
export const makeDeferred = (path: string, round: number) =>
  DurableDeferred.make(`${path} answer ${round}`, { success: Answer })
