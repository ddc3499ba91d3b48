/**
 * Finds environments by name: bundled environments, datasets, and modules in a trusted folder.
 *
 * **Details**
 *
 * | reference | environment |
 * | --- | --- |
 * | `arithmetic` | sums, without tools. Shows within a minute if a server returns tokens and if a model performs better than chance |
 * | `files` | the agent writes a file with given content; the reward checks the file with the rollout's tools |
 * | `tasks.jsonl`, a folder, `.csv` | rows with `prompt` and one of `answer` (the whole text), `pattern` (a regular expression), `check` (a command that exits with 0) |
 * | `./env.ts`, `./env.ts#name` | an export of a module, made by `RolloutEnvironment.make` |
 *
 * **Example** (Bundled environments)
 *
 * ```ts
 * import { EnvironmentCatalogue } from "hermes-effect/rollouts"
 *
 * console.log(EnvironmentCatalogue.list.map(({ name }) => name))
 * // => [ 'arithmetic', 'files' ]
 * ```
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { FolderTrust, renderRemedy } from "../../base/config/FolderTrust.ts"
import * as Json from "../../base/domain/Json.ts"
import { findNearest } from "../../base/domain/Similarity.ts"
import * as PluginModules from "../../base/platform/PluginModules.ts"
import { runWithin } from "../../base/platform/TimeLimit.ts"
import * as Dataset from "../batch/Dataset.ts"
import {
  type AnyItem,
  EnvironmentError,
  make,
  type Reward,
  type RolloutEnvironment,
  type RolloutTools
} from "./RolloutEnvironment.ts"

/** A bundled environment, as shown in lists. */
export interface ListedEnvironment {
  readonly name: string
  readonly description: string
}

/**
 * Makes an Effect that returns the next item each time it runs. After the last item it starts again with the first, for
 * at most `times` rounds.
 */
const cycleItems = <Item>(items: ReadonlyArray<Item>, times = 1): Effect.Effect<Item | undefined> => {
  let next = 0
  return Effect.sync(() => (next >= items.length * times ? undefined : items[next++ % items.length]))
}

interface Sum extends AnyItem {
  readonly a: number
  readonly b: number
}

/** Makes arithmetic tasks (sums), which are the same in every run. */
const makeSums = (count: number, from: number): ReadonlyArray<Sum> =>
  Array.from({ length: count }, (_, index) => ({
    id: `sum-${from + index}`,
    a: ((17 * (from + index)) % 90) + 10,
    b: ((31 * (from + index)) % 90) + 10
  }))

const findLastNumber = (text: string): string | undefined => text.match(/-?\d+/gu)?.at(-1)

const makeArithmetic = (): RolloutEnvironment<Sum> =>
  make<Sum>({
    name: "arithmetic",
    description: "Adds two numbers; no tools. A first check of a model's server",
    toolsets: [],
    nextItem: cycleItems(makeSums(64, 0), 1_000),
    evaluation: Effect.succeed(makeSums(8, 64)),
    formatPrompt: ({ a, b }) => `What is ${a} + ${b}? Answer with the number alone.`,
    computeReward: ({ a, b }, { text }) => {
      const correct = findLastNumber(text) === String(a + b) ? 1 : 0
      const brief = text.trim() === findLastNumber(text) ? 1 : 0
      return Effect.succeed({ reward: correct, components: { correct, brief } })
    }
  })

interface FileTask extends AnyItem {
  readonly path: string
  readonly content: string
}

const words = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron"]

const fileTasks: ReadonlyArray<FileTask> = words.map((word, index) => ({
  id: `file-${index}`,
  path: `notes/${word}.txt`,
  content: `${word} ${words[(index + 3) % words.length]}`
}))

const makeFiles = (): RolloutEnvironment<FileTask> =>
  make<FileTask>({
    name: "files",
    description: "Writes a file with a given text. A check of tools and of the place of a rollout",
    toolsets: ["file"],
    nextItem: cycleItems(fileTasks, 1_000),
    evaluation: Effect.succeed(fileTasks.slice(0, 2)),
    formatPrompt: ({ content, path }) =>
      `Create the file ${path} in the working directory. Its text is exactly: ${content}`,
    computeReward: ({ content, path }, _, tools) =>
      Effect.map(tools.readFile(path), ({ isFailure, output }) => {
        const exists = isFailure ? 0 : 1
        const correct = Json.toText(output).includes(content) ? 1 : 0
        return { reward: exists * (0.25 + 0.75 * correct), components: { exists, correct } }
      })
  })

const bundled: ReadonlyArray<() => RolloutEnvironment<Sum> | RolloutEnvironment<FileTask>> = [makeArithmetic, makeFiles]

/** Bundled environments. */
export const list: ReadonlyArray<ListedEnvironment> = bundled
  .map((one) => one())
  .map(({ description, name }) => ({ name, description }))

/**
 * Form of an environment that another process can make again: a bundled environment, or the rows of a dataset, whose
 * items have all data of their rows. The code of a module has no such form.
 */
export const EnvironmentForm = Schema.Union([
  Schema.Struct({ kind: Schema.Literal("bundled"), name: Schema.String }),
  Schema.Struct({ kind: Schema.Literal("rows"), name: Schema.String, hasCheck: Schema.Boolean })
])
/** One {@link EnvironmentForm}. */
export type EnvironmentForm = typeof EnvironmentForm.Type

/** A row of a dataset. */
interface Row extends AnyItem {
  readonly prompt: string
  readonly fields: Json.Fields
}

const bytesOfPattern = 2_000
/** Time limit for the pattern of a row, in milliseconds. */
const patternMillis = 1_000

/** Computes the reward of a row. Uses the first of `answer`, `pattern` and `check` that the row contains. */
const computeRowReward = (
  fields: Json.Fields,
  text: string,
  tools: RolloutTools
): Effect.Effect<Reward, EnvironmentError> => {
  const { answer, check, pattern } = fields
  const given = Json.readWord(answer)
  if (given !== "") return Effect.succeed(text.trim() === given.trim() ? 1 : 0)
  if (typeof pattern === "string") {
    const isMatch = runWithin(patternMillis, () => new RegExp(pattern, "u").test(text))
    return isMatch === undefined
      ? Effect.fail(new EnvironmentError({ message: "its pattern takes too long: it may backtrack without end" }))
      : Effect.succeed(isMatch ? 1 : 0)
  }
  return Effect.flatMap(tools.terminal(Json.readWord(check), { timeoutSeconds: 600 }), ({ error, exitCode }) =>
    exitCode === -1
      ? Effect.fail(new EnvironmentError({ message: `the check did not run: ${error ?? "no reason"}` }))
      : Effect.succeed(exitCode === 0 ? 1 : 0)
  )
}

/** Returns the reason why the reward of a row cannot be computed, or `undefined` if it can. */
const findRowProblem = ({ fields: { answer, check, pattern } }: Dataset.Row): string | undefined => {
  if (Json.readWord(answer) !== "") return undefined
  if (typeof pattern === "string" && pattern !== "") {
    if (pattern.length > bytesOfPattern) return `its pattern has more than ${bytesOfPattern} characters`
    try {
      void new RegExp(pattern, "u")
      return undefined
    } catch {
      return "its pattern is not a regular expression"
    }
  }
  return typeof check === "string" && check.trim() !== ""
    ? undefined
    : "it has no answer, pattern or check, so that nothing says what an answer is worth"
}

/** Makes the environment of the rows of a dataset. Tools are offered only if a row has a check command. */
const makeRows = (
  { hasCheck, name }: Extract<EnvironmentForm, { readonly kind: "rows" }>,
  description: string,
  items: ReadonlyArray<Row>
): RolloutEnvironment<Row> =>
  make<Row>({
    name,
    description,
    toolsets: hasCheck ? undefined : [],
    nextItem: cycleItems(items),
    formatPrompt: ({ prompt }) => prompt,
    computeReward: ({ fields }, { text }, tools) => computeRowReward(fields, text, tools)
  })

/** Finds a bundled environment. */
const findBundled = (name: string): RolloutEnvironment | undefined => {
  const own = bundled.map((one) => one()).find((one) => one.name === name)
  // Items come from the environment and are passed back only to it, so their type is irrelevant here.
  return own === undefined ? undefined : (own as unknown as RolloutEnvironment)
}

/** Makes the environment of a form, without items. Returns `undefined` if this version does not have it. */
export const fromForm = (form: EnvironmentForm): RolloutEnvironment | undefined =>
  // As above.
  form.kind === "bundled" ? findBundled(form.name) : (makeRows(form, "", []) as unknown as RolloutEnvironment)

/** An environment made from the rows of a dataset, and the problems of unusable rows. */
export interface FromDataset {
  readonly environment: RolloutEnvironment<Row>
  readonly form: EnvironmentForm
  readonly problems: ReadonlyArray<string>
}

const fromDataset = Effect.fnUntraced(function* (
  path: string
): Effect.fn.Return<FromDataset, EnvironmentError, FileSystem.FileSystem | Path.Path> {
  const paths = yield* Path.Path
  const { problems, rows } = yield* Effect.mapError(
    Dataset.read(path, { required: ["prompt"] }),
    ({ message }) => new EnvironmentError({ message })
  )
  const wrong = rows.flatMap((row) => {
    const problem = findRowProblem(row)
    return problem === undefined ? [] : [`${row.file}: line ${row.line}: ${problem}`]
  })
  const usable = rows.filter((row) => findRowProblem(row) === undefined)
  const [first] = wrong
  if (usable.length === 0)
    return yield* new EnvironmentError({ message: first ?? `${path}: there is no row with a prompt` })
  const form = {
    kind: "rows",
    name: paths.basename(path).replace(/\.\w+$/u, "") || "dataset",
    hasCheck: usable.some(({ fields }) => typeof fields["check"] === "string")
  } as const
  const environment = makeRows(
    form,
    `${usable.length} rows of ${path}`,
    usable.map(({ fields, id }) => ({ id, prompt: Json.readWord(fields["prompt"]), fields }))
  )
  return {
    environment,
    form,
    problems: [
      ...problems.map(({ file, line, message }) => `${file}${line === undefined ? "" : `: line ${line}`}: ${message}`),
      ...wrong
    ]
  }
})

const isEnvironment = (value: unknown): value is RolloutEnvironment =>
  Predicate.isObject(value) &&
  ["name", "nextItem", "formatPrompt", "computeReward", "prepare", "evaluation"].every((member) => member in value)

const isModule = (path: string): boolean => /\.(?:ts|mts|js|mjs)$/u.test(path)

/** Loads an environment from an export of a module in a trusted folder. */
const fromModule = Effect.fnUntraced(function* (
  reference: string
): Effect.fn.Return<
  RolloutEnvironment,
  EnvironmentError,
  FileSystem.FileSystem | FolderTrust | Path.Path | Scope.Scope
> {
  const [named = "", name = "default"] = reference.split("#", 2)
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const trust = yield* FolderTrust
  const path = yield* Effect.mapError(
    fs.realPath(paths.resolve(named)),
    () => new EnvironmentError({ message: `${named}: there is no such file` })
  )
  const folder = paths.dirname(path)
  if (!(yield* Effect.orElseSucceed(trust.isTrusted(folder), () => false))) {
    const project = yield* Effect.orElseSucceed(trust.findOwnProject(folder), () => folder)
    return yield* new EnvironmentError({
      message: `${path} is in a folder that is not trusted. Look at it, then run \`${renderRemedy(project)}\`.`
    })
  }
  yield* PluginModules.share(folder)
  const exports = yield* Effect.mapError(
    PluginModules.importModule(path, 0),
    (error) =>
      new EnvironmentError({
        message: `${path} cannot be loaded: ${error instanceof Error ? error.message.split("\n")[0] : String(error)}`
      })
  )
  const found = Json.readFields(exports)
  const exported = found[name] ?? (name === "default" ? Object.values(found).find(isEnvironment) : undefined)
  if (isEnvironment(exported)) return exported
  const meant = findNearest(name, Object.keys(found))
  return yield* new EnvironmentError({
    message:
      exported === undefined
        ? `${path} has no export ${name}${meant === undefined ? "" : `; did you mean ${meant}?`}`
        : `${path}: ${name} is not an environment: make it with RolloutEnvironment.make`
  })
})

/** An environment that was found, and the problems of its rows. */
export interface FoundEnvironment {
  /** The environment. Its item type is private, and other code does not inspect items. */
  readonly environment: RolloutEnvironment
  /** Form for other processes. `undefined` for the code of a module. */
  readonly form?: EnvironmentForm | undefined
  /** Problems of unusable rows, if the environment is a dataset. */
  readonly problems: ReadonlyArray<string>
}

/** Finds the environment for a reference. */
export const find = Effect.fn("EnvironmentCatalogue.find")(function* (
  reference: string
): Effect.fn.Return<FoundEnvironment, EnvironmentError, FileSystem.FileSystem | FolderTrust | Path.Path | Scope.Scope> {
  const own = findBundled(reference)
  if (own !== undefined) return { environment: own, form: { kind: "bundled", name: reference }, problems: [] }
  if (isModule(reference.split("#", 1)[0] ?? "")) return { environment: yield* fromModule(reference), problems: [] }
  const fs = yield* FileSystem.FileSystem
  if (yield* Effect.orElseSucceed(fs.exists(reference), () => false)) {
    const { environment, form, problems } = yield* fromDataset(reference)
    // As above.
    return { environment: environment as unknown as RolloutEnvironment, form, problems }
  }
  if (/[\\/]|\.(?:jsonl?|csv|parquet)$/.test(reference))
    return yield* new EnvironmentError({ message: `dataset ${reference} cannot be read: no such file or directory` })
  const meant = Option.fromUndefinedOr(
    findNearest(
      reference,
      list.map(({ name }) => name)
    )
  )
  return yield* new EnvironmentError({
    message:
      `There is no environment "${reference}": ` +
      `${Option.match(meant, { onNone: () => "`hermes lab rl environments` lists them; a dataset or a module is named by its path", onSome: (name) => `did you mean "${name}"?` })}`
  })
})
