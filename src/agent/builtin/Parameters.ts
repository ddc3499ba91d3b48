/**
 * Parameters of bundled middleware as users write them, in code (camelCase) or in a file (snake_case), decoded by the
 * middleware's own Schema. A wrong one is a line that names the field and the shape that it should have.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { ConfigError } from "../../base/domain/AgentError.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import * as MiddlewareDefinition from "../../middleware/MiddlewareDefinition.ts"

/** Middleware that a file can name. Its parameters may have any shape; `fromUnknown` decodes them. */
export interface Definition {
  /** Name in files: `long-tool-output`. */
  readonly id: string
  /** Makes the middleware of parameters of any shape. */
  readonly fromUnknown: (parameters: unknown) => Result.Result<Middleware.Contained, ConfigError>
}

/** Decodes the parameters of the middleware `id`; `undefined` means no parameters. */
export const read = <A>(id: string, schema: Schema.Decoder<A>, given: unknown): Result.Result<A, ConfigError> =>
  Result.mapError(MiddlewareDefinition.decode(schema, given), (problem) => {
    const path = [id, ...problem.path].join(".")
    return new ConfigError({ path, message: `${path}: ${problem.message}` })
  })

/** Parameters of middleware that is for model calls or for calls of tools. */
export const calls = {
  calls: Schema.optional(Schema.Literals(["model", "tool"])),
  tools: Schema.optional(Schema.Array(Schema.String))
}

/** {@link read} for parameters that have {@link calls}; refuses `tools` unless `calls` is `tool`. */
export const readCalls = <
  A extends { readonly calls?: string | undefined; readonly tools?: ReadonlyArray<string> | undefined }
>(
  id: string,
  schema: Schema.Decoder<A>,
  given: unknown
): Result.Result<A, ConfigError> =>
  Result.flatMap(read(id, schema, given), (read) =>
    read.tools === undefined || read.calls === "tool"
      ? Result.succeed(read)
      : Result.fail(makeParameterError(id, "tools", "only for calls of tools: add calls: tool, or remove it"))
  )

/** The error of a parameter that does not go with the others. */
export const makeParameterError = (id: string, name: string, message: string): ConfigError =>
  new ConfigError({ path: `${id}.${name}`, message: `${id}.${name}: ${message}` })

/** A positive number of seconds. */
export const Seconds = Schema.Finite.check(Schema.isGreaterThan(0))

/** A positive whole number. */
export const Positive = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))

/** A whole number from 0. */
export const NotNegative = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
