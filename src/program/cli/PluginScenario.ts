/**
 * Scenarios of a plugin: YAML or JSON files in its folder `scenarios`, each with a prompt, the answers of the model and
 * the expected outcome. `scratchpad/guides/authors.md` describes the format.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import * as Yaml from "../../base/config/Yaml.ts"
import { describeUnknownName } from "../../middleware/MiddlewareDefinition.ts"
import * as Scripts from "../../models/provider/offline/Scenario.ts"
import { type Failure, makeUsageFailure } from "./Failure.ts"

const Texts = Schema.Array(Schema.String)

const ExpectedCall = Schema.Struct({
  name: Schema.String,
  status: Schema.optionalKey(Schema.Literals(["ok", "error", "blocked", "cancelled"])),
  contains: Schema.optionalKey(Texts),
  absent: Schema.optionalKey(Texts)
})

const Expected = Schema.Struct({
  /** The final answer, exactly. */
  text: Schema.optionalKey(Schema.String),
  /** Parts of the final answer. */
  contains: Schema.optionalKey(Texts),
  /** Texts that appear nowhere: answer, streamed parts, hook payloads, files of the home directory. */
  absent: Schema.optionalKey(Texts),
  /** Names of hooks in this order; other events may come between. */
  events: Schema.optionalKey(Texts),
  /** Tool calls in order, all of them. */
  tools: Schema.optionalKey(Schema.Array(ExpectedCall)),
  /** Names of tools of which a call is blocked. */
  blocked: Schema.optionalKey(Texts),
  /** Requests that reach the model. */
  requests: Schema.optionalKey(
    Schema.Struct({
      count: Schema.optionalKey(Schema.Int),
      contains: Schema.optionalKey(Texts),
      absent: Schema.optionalKey(Texts)
    })
  ),
  /** Part of the message with which a run fails. */
  failure: Schema.optionalKey(Schema.String),
  /** Parts of expected warnings. A warning that is not expected fails the scenario. */
  warnings: Schema.optionalKey(Texts)
})

/** Schema of a scenario. */
export const Scenario = Schema.Struct({
  name: Schema.optionalKey(Schema.String),
  /** One message of the user, or the messages of a conversation. */
  prompt: Schema.Union([Schema.String, Schema.NonEmptyArray(Schema.String)]),
  /** Answers of the model, in the format of `--script`. If absent, the model in `settings` answers. */
  turns: Schema.optionalKey(Scripts.Scenario.fields.turns),
  loop: Schema.optionalKey(Schema.Boolean),
  /** Runs of the scenario: streamed and not by default. */
  streamed: Schema.optionalKey(Schema.Union([Schema.Boolean, Schema.Literal("both")])),
  /** Settings of the plugin. */
  config: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown)),
  /** Other settings, as in `config.yaml`. */
  settings: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown)),
  /** Files in the working directory of the tools, by relative path. */
  files: Schema.optionalKey(Schema.Record(Schema.String, Schema.String)),
  /** True if calls that need an approval are approved. They are denied by default. */
  approve: Schema.optionalKey(Schema.Boolean),
  expect: Schema.optionalKey(Expected)
})
/** A scenario of a plugin. */
export type Scenario = typeof Scenario.Type

/** A scenario and its file. */
export interface ScenarioFile {
  /** Path relative to the folder of the plugin, with slashes. */
  readonly file: string
  readonly path: string
  readonly scenario: Scenario
}

const decode = Schema.decodeUnknownEffect(Scenario, { onExcessProperty: "error" })
const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** Returns the known keys of the mapping that contains a place in a scenario. */
const listSiblings = (place: ReadonlyArray<string | number>): ReadonlyArray<string> => {
  const isKey = (name: unknown): name is string => typeof name === "string" && !/^\d+$/.test(name)
  let ast: SchemaAST.AST | undefined = Scenario.ast
  for (const name of place.slice(0, -1)) ast = ast && findMember(ast, isKey(name) ? name : undefined)
  const fields = ast === undefined ? undefined : findFields(ast)
  return (fields?.propertySignatures ?? []).map(({ name }) => String(name))
}

const findFields = (ast: SchemaAST.AST): SchemaAST.Objects | undefined =>
  SchemaAST.isObjects(ast)
    ? ast
    : SchemaAST.isUnion(ast)
      ? ast.types.map(findFields).find((found) => found !== undefined)
      : undefined

/** Returns the type of a field, or of the elements of a list if `name` is absent. */
const findMember = (ast: SchemaAST.AST, name: string | undefined): SchemaAST.AST | undefined => {
  if (name !== undefined) return findFields(ast)?.propertySignatures.find((field) => field.name === name)?.type
  if (SchemaAST.isArrays(ast)) return ast.rest[0] ?? ast.elements[0]
  return SchemaAST.isUnion(ast)
    ? ast.types.map((type) => findMember(type, undefined)).find((found) => found !== undefined)
    : undefined
}

const describeIssue = (place: ReadonlyArray<string | number>, message: string): string => {
  if (message !== "Expected no excess property") return message
  const name = String(place.at(-1) ?? "")
  return place.length === 1 && listSiblings(["expect", name]).includes(name)
    ? "unknown here: move it below `expect`"
    : describeUnknownName(name, listSiblings(place))
}

const readScenario = Effect.fnUntraced(function* (path: string, shown: string) {
  const fs = yield* FileSystem.FileSystem
  const text = yield* Effect.mapError(fs.readFileString(path), ({ message }) =>
    makeUsageFailure(`${shown}: ${message}`)
  )
  const value = yield* Effect.mapError(Yaml.read(text, shown), ({ message }) => makeUsageFailure(message))
  return yield* Effect.catch(decode(value), ({ issue }) =>
    Effect.gen(function* () {
      const { findLine } = yield* Yaml.load
      const [first] = format(issue).issues
      const keys = (first?.path ?? []).map((part) => (typeof part === "object" ? part.key : part))
      const place = keys.map((key) => (typeof key === "number" ? key : String(key)))
      const message = describeIssue(place, first?.message ?? "it is not a scenario")
      const at = place.length === 0 ? "" : `${place.join(".")}: `
      return yield* makeUsageFailure(`${shown}:${findLine(text, place)}: ${at}${message}`)
    })
  )
})

/** Reads the scenarios of a plugin, by file name. Without the folder `scenarios` the list is empty. */
export const listScenarios = Effect.fnUntraced(function* (
  directory: string
): Effect.fn.Return<ReadonlyArray<ScenarioFile>, Failure, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const folder = paths.join(directory, "scenarios")
  const names = yield* Effect.orElseSucceed(fs.readDirectory(folder), () => [])
  return yield* Effect.forEach(names.filter((name) => /\.(?:ya?ml|json)$/.test(name)).toSorted(), (name) => {
    const path = paths.join(folder, name)
    const file = `scenarios/${name}`
    return Effect.map(readScenario(path, file), (scenario) => ({ file, path, scenario }))
  })
})
