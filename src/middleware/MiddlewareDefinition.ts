/**
 * Converts exports of modules to middleware: a definition with the Schema of its parameters, or any other export that
 * can be converted.
 *
 * **Details**
 *
 * | export | converted by |
 * | --- | --- |
 * | a definition ({@link make}) | decoding the parameters with its Schema and passing them to `make` |
 * | a class | `new` with the parameters, which a static `params` Schema decodes |
 * | a function | a call with the parameters, which may be absent; a promise or an Effect is awaited |
 * | middleware, or a record with lifecycle methods | using it unchanged; it takes no parameters |
 *
 * A Schema names parameters in camelCase and files name them in snake_case; both are accepted. Without a Schema the
 * parameters are passed on with the names in the file.
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
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import * as IsolatedCall from "../base/domain/IsolatedCall.ts"
import { findNearest } from "../base/domain/Similarity.ts"
import * as Faults from "./Faults.ts"
import * as Lifecycle from "./Lifecycle.ts"
import * as Middleware from "./Middleware.ts"
import * as PlainReturn from "./PlainReturn.ts"

const TypeId = "~hermes-effect/middleware/MiddlewareDefinition"

/** Middleware that is created from parameters. */
export interface MiddlewareDefinition<in out Params> {
  readonly [TypeId]: typeof TypeId
  readonly name: string
  /** Schema of the parameters, with keys in camelCase. */
  readonly params: Schema.Decoder<Params>
  readonly make: (
    params: Params
  ) => Middleware.Contained | Promise<Middleware.Contained> | Effect.Effect<Middleware.Contained, unknown>
}

/** Creates a definition. */
export const make = <Params>(
  options: Omit<MiddlewareDefinition<Params>, typeof TypeId>
): MiddlewareDefinition<Params> => ({ [TypeId]: TypeId, ...options })

/** Parameters from a settings file. */
export type Params = Readonly<Record<string, unknown>>

/** An invalid parameter, or an export that cannot be converted to middleware. */
export interface Problem {
  /** Path in the parameters, with the Schema's names. Empty for the parameters as a whole. */
  readonly path: ReadonlyArray<string>
  readonly message: string
}

/** Converts a name such as `head_lines` to `headLines`. */
export const toCamelCase = (name: string): string =>
  name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())

const camelizeKeys = (given: unknown): unknown =>
  Predicate.isObject(given) && !Array.isArray(given)
    ? Object.fromEntries(Object.entries(given).map(([key, value]) => [toCamelCase(key), value]))
    : given

const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** Lists the names of a Schema's parameters. Returns an empty list for a Schema that is not a struct. */
export const listParameters = (schema: Schema.Top): ReadonlyArray<string> => {
  const ast = SchemaAST.toEncoded(schema.ast)
  return SchemaAST.isObjects(ast) ? ast.propertySignatures.map(({ name }) => String(name)) : []
}

/** Describes a name that is not among the known names: the nearest one, and all of them. */
export const describeUnknownName = (name: string, known: ReadonlyArray<string>): string => {
  if (known.length === 0) return "there are no parameters: remove it"
  const meant = findNearest(name, known)
  return `unknown${meant === undefined ? "." : `, did you mean ${meant}?`} Known: ${known.join(", ")}.`
}

const isExcess = (issue: SchemaIssue.Issue): boolean =>
  issue._tag === "Composite"
    ? issue.issues.some(isExcess)
    : issue._tag === "Pointer"
      ? issue.issue._tag === "UnexpectedKey"
      : issue._tag === "Encoding" && isExcess(issue.issue)

/** Decodes parameters in either spelling. An absent value means no parameters. */
export const decode = <A>(schema: Schema.Decoder<A>, given: unknown): Result.Result<A, Problem> =>
  Result.mapError(
    Schema.decodeUnknownResult(schema, { onExcessProperty: "error", errors: "first" })(camelizeKeys(given ?? {})),
    ({ issue }) => {
      const [first] = format(issue).issues
      const path = (first?.path ?? []).map(String)
      const [name, ...inside] = path
      if (name !== undefined && inside.length === 0 && isExcess(issue))
        return {
          path,
          message: describeUnknownName(Lifecycle.toSnakeCase(name), listParameters(schema).map(Lifecycle.toSnakeCase))
        }
      return { path, message: (first?.message ?? "wrong value").replaceAll(/\s+/g, " ").replaceAll(" | undefined", "") }
    }
  )

const isDefinition = (value: unknown): value is MiddlewareDefinition<unknown> => Predicate.hasProperty(value, TypeId)

const hasMethods = (value: object): boolean =>
  Lifecycle.methodNames.some((name) =>
    [name, Lifecycle.toSnakeCase(name)].some((key) => Predicate.isFunction(Reflect.get(value, key)))
  )

type Constructor = new (params: unknown) => object

/** Returns true for a class, as detected from its source text or its prototype methods. */
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

/** Converts a middleware value, or an object with lifecycle methods. */
const toMiddleware = (value: unknown, name: string): Result.Result<Middleware.Contained, Problem> => {
  // The types of an export in a file are unknown: its failures become failures of a run, and it receives no services.
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

/** Time limit for creating middleware. */
const deadline = Duration.seconds(30)

/** Calls code of a module. An exception or a timeout becomes a problem. */
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
  // Code from a module that a file refers to does not receive any services.
  return contained as Effect.Effect<unknown, Problem>
}

/** Converts an export to middleware. `name` is used if the export has no name. */
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
      : yield* Effect.fail(toProblem("it takes no params: remove them, or export a function that accepts them"))
  })
