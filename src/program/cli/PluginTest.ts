/**
 * Action of `hermes plugins test`: plays the scenarios of a plugin, streamed and not, and a generated test of its
 * registrations. Each run has a new copy of the plugin and a new home directory, and no network.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Agent from "../../agent/Agent.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import { blockNetwork } from "../../base/platform/Network.ts"
import * as Yaml from "../../base/config/Yaml.ts"
import * as Json from "../../base/domain/Json.ts"
import * as HookRecorder from "../../hooks/HookRecorder.ts"
import { Hooks } from "../../hooks/Hooks.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import { InteractiveMode, makeUnattended } from "../../tools/approval/InteractiveMode.ts"
import { failed, makeSilentFailure, makeUsageFailure } from "./Failure.ts"
import { compareOutcome, type Mismatch, type Outcome } from "./PluginExpectations.ts"
import { listScenarios, type Scenario } from "./PluginScenario.ts"
import { generateScenario } from "./PluginSamples.ts"
import { findFolder, makeTrial, type PluginFolder, type Trial } from "./PluginTrial.ts"
import { printLine } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

/** A run of a scenario, with its name and its mode. */
interface Case {
  readonly file: string
  readonly name: string
  readonly scenario: Scenario
  readonly isStreamed: boolean
}

const maxFileBytes = 64 * 1024 * 1024

/** Returns the content of the files in a directory as text, for a search. */
const readFiles = Effect.fnUntraced(
  function* (directory: string) {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const texts: Array<string> = []
    for (const name of yield* fs.readDirectory(directory, { recursive: true })) {
      if (/^(?:plugins|config\.yaml)(?:[\\/]|$)/.test(name)) continue
      const path = paths.join(directory, name)
      const { size, type } = yield* fs.stat(path)
      if (type === "File" && Number(size) <= maxFileBytes)
        texts.push(new TextDecoder().decode(yield* fs.readFile(path)))
    }
    return texts.join("\n")
    // A file may disappear while the directory is read.
  },
  Effect.orElseSucceed(() => "")
)

const writeFiles = Effect.fnUntraced(function* (work: string, files: NonNullable<Scenario["files"]>) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  for (const [name, text] of Object.entries(files)) {
    const path = paths.resolve(work, name)
    if (!path.startsWith(work + paths.sep))
      return yield* makeUsageFailure(`files: ${name} is not below the working directory`)
    yield* fs.makeDirectory(paths.dirname(path), { recursive: true })
    yield* fs.writeFileString(path, text)
  }
})

/** Writes the answers of the model and returns the path; `undefined` if the model in the settings answers. */
const writeScript = Effect.fnUntraced(function* ({ loop, turns }: Scenario, { work }: Trial) {
  if (turns === undefined) return undefined
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const { render } = yield* Yaml.load
  const path = paths.join(paths.dirname(work), "turns.yaml")
  yield* fs.writeFileString(path, render({ turns, ...(loop === undefined ? {} : { loop }) }))
  return path
})

const toPrompts = ({ prompt }: Scenario): ReadonlyArray<string> => (typeof prompt === "string" ? [prompt] : prompt)

/** The texts that a user of the terminal sees. */
interface Conversation {
  text: string | undefined
  streamed: string
}

/** Runs the messages of a conversation, one after another. */
const runConversation = Effect.fnUntraced(function* (
  prompts: ReadonlyArray<string>,
  { cwd, isStreamed }: { readonly cwd: string; readonly isStreamed: boolean },
  seen: Conversation
) {
  let sessionId: string | undefined
  for (const prompt of prompts) {
    const input = { prompt, cwd, ...(sessionId === undefined ? {} : { sessionId }) }
    const result = isStreamed
      ? yield* Agent.stream(input).pipe(
          Stream.tap((event) =>
            Effect.sync(() => {
              if (event._tag === "TextDelta") seen.streamed += event.text
            })
          ),
          Stream.runLast,
          Effect.map((last) => (last._tag === "Some" && last.value._tag === "RunFinished" ? last.value : undefined))
        )
      : yield* Agent.run(input)
    sessionId = result?.sessionId
    seen.text = result?.text
  }
})

const describeFailure = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  return error instanceof Error ? error.message : String(error)
}

const toCalls = (recorder: HookRecorder.HookRecorder): Outcome["calls"] =>
  recorder
    .payloads("post_tool_call")
    .map((payload) => ({
      name: String(payload["tool_name"]),
      status: String(payload["status"]),
      result: typeof payload["result"] === "string" ? payload["result"] : Json.toText(payload["result"])
    }))

/** Plays a scenario once and returns what it showed. */
const playScenario = Effect.fnUntraced(function* (folder: PluginFolder, { isStreamed, scenario }: Case) {
  const trial = yield* makeTrial(folder, { files: "copy", config: scenario.config ?? {}, settings: scenario.settings })
  yield* writeFiles(trial.work, scenario.files ?? {})
  const script = yield* writeScript(scenario, trial)
  const requests: Array<string> = []
  const counter = Middleware.llmExecution({
    name: "requests",
    wrap: (next) => (request) =>
      Effect.suspend(() => {
        requests.push(Json.toText(request))
        return next(request)
      })
  })
  const recorder = HookRecorder.makeHookRecorder()
  const seen: Conversation = { text: undefined, streamed: "" }
  yield* blockNetwork
  const exit = yield* Effect.gen(function* () {
    const services = yield* Layer.build(trial.makeLayer({ script, middleware: [counter] }))
    const hooks = Context.get(services, Hooks)
    yield* Effect.forEach(recorder.hooks, (hook) => hooks.register(hook), { discard: true })
    yield* Effect.provideContext(runConversation(toPrompts(scenario), { cwd: trial.work, isStreamed }, seen), services)
  }).pipe(
    Effect.scoped,
    Effect.provideService(
      InteractiveMode,
      makeUnattended("test of a plugin", scenario.approve === true ? "approve" : "deny")
    ),
    Effect.timeout("60 seconds"),
    Effect.exit
  )
  return {
    text: Exit.isSuccess(exit) ? seen.text : undefined,
    failure: Exit.isSuccess(exit) ? undefined : describeFailure(exit.cause),
    events: recorder.told().map(({ name }) => name),
    calls: toCalls(recorder),
    requests,
    warnings: Array.from(new Set(trial.warnings())),
    places: [
      ["the answer", seen.text ?? ""],
      ["the streamed text", seen.streamed],
      ["the payload of a hook", recorder.told().map(Json.toText).join("\n")],
      ["a file of the home directory", yield* readFiles(trial.home)]
    ]
  } satisfies Outcome
}, Effect.scoped)

const listCases = (file: string, scenario: Scenario): ReadonlyArray<Case> => {
  const { streamed = "both" } = scenario
  const modes = streamed === "both" ? [false, true] : [streamed]
  return modes.map((isStreamed) => ({ file, name: scenario.name ?? "", scenario, isStreamed }))
}

/** Result of a case. */
interface CaseReport {
  readonly file: string
  readonly name: string
  readonly streamed: boolean
  readonly ok: boolean
  readonly mismatches: ReadonlyArray<Mismatch>
}

const renderReport = ({ file, mismatches, name, ok, streamed }: CaseReport): ReadonlyArray<string> => [
  SafeText.toLine(
    `${ok ? "✓" : "✗"} ${file}${name === "" ? "" : `: ${name}`} (${streamed ? "streamed" : "not streamed"})`
  ),
  ...mismatches.flatMap(({ lines, subject }) => [
    `  ${subject}`,
    ...lines.map((line) => `    ${SafeText.toLine(line)}`)
  ])
]

/** Tests the plugin in a folder and prints one line for each case, with the differences of a case that fails. */
export const testFolder = Effect.fn("hermes plugins test")(function* (path: string | undefined, json: boolean) {
  const paths = yield* Path.Path
  const folder = yield* findFolder(path)
  const files = yield* listScenarios(folder.directory)
  const generated = yield* generateScenario(
    folder,
    files.find(({ scenario }) => scenario.config !== undefined)?.scenario
  )
  const cases = [
    ...files.flatMap(({ file, scenario }) => listCases(file, scenario)),
    ...listCases("generated", generated)
  ]
  const reports: Array<CaseReport> = []
  for (const one of cases) {
    const outcome = yield* playScenario(folder, one)
    const mismatches = compareOutcome(one.scenario.expect ?? {}, outcome)
    const { file, isStreamed, name } = one
    const report = { file, name, streamed: isStreamed, ok: mismatches.length === 0, mismatches }
    reports.push(report)
    if (!json) for (const line of renderReport(report)) yield* printLine(line)
  }
  const failures = reports.filter(({ ok }) => !ok).length
  if (json) {
    yield* printLine(SafeText.toJson({ plugin: folder.candidate.key, ok: failures === 0, cases: reports }, 2))
  } else {
    const place = paths.relative(getWorkingDirectory(), folder.directory) || "."
    const remark = files.length === 0 ? `; ${place} has no scenarios/*.yaml` : ""
    yield* printLine(SafeText.toLine(`${reports.length - failures} passed, ${failures} failed${remark}`))
  }
  if (failures > 0) return yield* makeSilentFailure(failed)
})
