/**
 * Parameters of bundled middleware as users write them, in code (camelCase) or in a file (snake_case), decoded by the middleware's own
 * Schema. A wrong one is a line that names the field and the shape that it should have.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { ConfigError } from "../domain/AgentError.ts"
import type * as Middleware from "../middleware/Middleware.ts"
import * as MiddlewareDefinition from "../middleware/MiddlewareDefinition.ts"

/** Middleware that a file can name: parameters of any shape, read where it is made. */
export interface Definition {
  /** Name in files: `long-tool-output`. */
  readonly id: string
  /** Makes the middleware of parameters of any shape. */
  readonly fromUnknown: (parameters: unknown) => Result.Result<Middleware.Contained, ConfigError>
}

/** Decodes the parameters of the middleware `id`; nothing stands for no parameters. */
export const read = <A>(id: string, schema: Schema.Decoder<A>, given: unknown): Result.Result<A, ConfigError> =>
  Result.mapError(MiddlewareDefinition.decode(schema, given), (problem) => {
    const path = [id, ...problem.path].join(".")
    return new ConfigError({ path, message: `${path}: ${problem.message}` })
  })

/** A positive whole number. */
export const Positive = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))

/** A whole number from 0. */
export const NotNegative = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
