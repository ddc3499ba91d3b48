/**
 * Middleware that a file can name: a definition with the Schema of its parameters, or any other export that can be made
 * into middleware.
 *
 * **Details**
 *
 * | an export | is made by |
 * | --- | --- |
 * | a definition ({@link make}) | its Schema decodes the parameters, `make` gets them |
 * | a class | `new` with the parameters; a static `params`, a Schema, decodes them |
 * | a function | a call with the parameters, which may be absent; a promise or an Effect is waited for |
 * | middleware, or a record with lifecycle methods | itself; it takes no parameters |
 *
 * A Schema names parameters in camelCase and files name them in snake_case; both are accepted. Without a Schema the
 * parameters are passed on as the file spells them.
 *
 * **Example** (A module that `config.yaml` names as `./audit.ts#audit`)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Schema from "effect/Schema"
 * import { Middleware } from "hermes-effect"
 * import { MiddlewareDefinition } from "hermes-effect/middleware"
 *
 * export const audit = MiddlewareDefinition.make({
 *   name: "audit",
 *   params: Schema.Struct({ logFile: Schema.String }),
 *   make: ({ logFile }) =>
 *     Middleware.lifecycle({ name: "audit", beforeTool: ({ toolName }) => Effect.logInfo(`${logFile}: ${toolName}`) })
 * })
 * ```
 *
 * Source: `nexau.md` §6.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import * as IsolatedCall from "../base/domain/IsolatedCall.ts"
import * as Faults from "./Faults.ts"
import * as Lifecycle from "./Lifecycle.ts"
import * as Middleware from "./Middleware.ts"
import * as PlainReturn from "./PlainReturn.ts"

const TypeId = "~hermes-effect/middleware/MiddlewareDefinition"

/** Middleware that is created from parameters. */
export interface MiddlewareDefinition<in out Params> {
  readonly [TypeId]: typeof TypeId
  readonly name: string
  /** Keys in camelCase. */
  readonly params: Schema.Decoder<Params>
  readonly make: (
    params: Params
  ) => Middleware.Contained | Promise<Middleware.Contained> | Effect.Effect<Middleware.Contained, unknown>
}

/** Makes a definition. */
export const make = <Params>(
  options: Omit<MiddlewareDefinition<Params>, typeof TypeId>
): MiddlewareDefinition<Params> => ({ [TypeId]: TypeId, ...options })

/** Parameters as a file specifies them. */
export type Params = Readonly<Record<string, unknown>>

/** A parameter that does not fit, or an export that cannot be made into middleware. */
export interface Problem {
  /** Place in the parameters, in the words of the Schema; empty for the whole. */
  readonly path: ReadonlyArray<string>
  readonly message: string
}

/** `head_lines` as `headLines`. */
export const toCamelCase = (name: string): string =>
  name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())

const camelizeKeys = (given: unknown): unknown =>
  Predicate.isObject(given) && !Array.isArray(given)
    ? Object.fromEntries(Object.entries(given).map(([key, value]) => [toCamelCase(key), value]))
    : given

const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** Decodes parameters of either spelling. An absent value means no parameters. */
export const decode = <A>(schema: Schema.Decoder<A>, given: unknown): Result.Result<A, Problem> =>
  Result.mapError(
    Schema.decodeUnknownResult(schema, { onExcessProperty: "error", errors: "first" })(camelizeKeys(given ?? {})),
    ({ issue }) => {
      const [first] = format(issue).issues
      return {
        path: (first?.path ?? []).map(String),
        message: (first?.message ?? "wrong value").replaceAll(/\s+/g, " ").replaceAll(" | undefined", "")
      }
    }
  )

const isDefinition = (value: unknown): value is MiddlewareDefinition<unknown> => Predicate.hasProperty(value, TypeId)

const hasMethods = (value: object): boolean =>
  Lifecycle.methodNames.some((name) =>
    [name, Lifecycle.toSnakeCase(name)].some((key) => Predicate.isFunction(Reflect.get(value, key)))
  )

type Constructor = new (params: unknown) => object

/** True for a class, as far as code says: by its text, or by the methods of its objects. */
export const isClass = (value: unknown): value is Constructor => {
  if (!Predicate.isFunction(value)) return false
  const prototype: unknown = value.prototype
  return (
    /^class\b/.test(Function.prototype.toString.call(value)) || (Predicate.isObject(prototype) && hasMethods(prototype))
  )
}

const nothing =
  "it is neither middleware (Middleware.lifecycle, …), nor an object with methods such as before_model," +
  " nor a function or class that makes one"

const toProblem = (message: string): Problem => ({ path: [], message })

/** Middleware, or an object with lifecycle methods. */
const toMiddleware = (value: unknown, name: string): Result.Result<Middleware.Contained, Problem> => {
  // The types of a file's export are unknown: its failures are failures of a run, and it receives no services.
  if (Middleware.isMiddleware(value)) return Result.succeed(value as Middleware.Contained)
  if (!Predicate.isObject(value) || Array.isArray(value) || !hasMethods(value)) return Result.fail(toProblem(nothing))
  const own: unknown = Reflect.get(value, "name")
  const onFailure: unknown = Reflect.get(value, "onFailure")
  const state: unknown = Reflect.get(value, "state")
  const shown = typeof own === "string" ? own : value.constructor === Object ? name : value.constructor.name
  return Result.try({
    try: () => {
      const shared = Lifecycle.bind(shown, value)
      return Middleware.lifecycleUndeclared({
        kind: "lifecycle",
        name: shown,
        onFailure: onFailure === "closed" ? "closed" : "open",
        state: Array.isArray(state) ? state : undefined,
        shared,
        make: () => Effect.succeed(shared)
      })
    },
    catch: (error) => toProblem(Faults.describeError(error))
  })
}

/** Longest time in which middleware is made. */
const deadline = Duration.seconds(30)

/** Calls the code of a module; a throw is its problem, as is taking too long. */
const callModule = (run: () => unknown): Effect.Effect<unknown, Problem> => {
  const contained = IsolatedCall.contain(PlainReturn.call(run), { what: "it", deadline }).pipe(
    Effect.catchCause((cause) => {
      if (Cause.hasInterrupts(cause)) return Effect.interrupt
      const error = Cause.squash(cause)
      return Effect.fail(
        toProblem(`it failed: ${Faults.describeError(error instanceof PlainReturn.Thrown ? error.error : error)}`)
      )
    })
  )
  // Code that a file names receives no services.
  return contained as Effect.Effect<unknown, Problem>
}

/** Makes middleware of an export. `name` is used if the export has no name. */
export const fromExport = (
  exported: unknown,
  name: string,
  params: Params | undefined
): Effect.Effect<Middleware.Contained, Problem> =>
  Effect.gen(function* () {
    if (isDefinition(exported)) {
      const decoded = yield* Effect.fromResult(decode(exported.params, params))
      return yield* Effect.fromResult(toMiddleware(yield* callModule(() => exported.make(decoded)), exported.name))
    }
    if (isClass(exported)) {
      const schema: unknown = Reflect.get(exported, "params")
      const given: unknown = Schema.isSchema(schema)
        ? // A Schema whose decoding needs services cannot be told apart, and dies.
          yield* Effect.fromResult(decode(schema as Schema.Decoder<unknown>, params))
        : (params ?? {})
      return yield* Effect.fromResult(toMiddleware(yield* callModule(() => new exported(given)), name))
    }
    if (Predicate.isFunction(exported)) {
      return yield* Effect.fromResult(toMiddleware(yield* callModule(() => exported(params ?? {})), name))
    }
    const made = yield* Effect.fromResult(toMiddleware(exported, name))
    return params === undefined || Object.keys(params).length === 0
      ? made
      : yield* Effect.fail(toProblem("it takes no params: remove them, or export a function that gets them"))
  })
