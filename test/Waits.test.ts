// Waits of the sources: an effect that is repeated after a pause uses a `Schedule`. A loop, a recursion or a `forever`
// with a pause in it needs a reason.
import { assert, describe, it } from "@effect/vitest"
import { parseAst } from "rolldown/parseAst"
import { sources } from "./support/sources.ts"

interface Node {
  readonly type: string
  readonly start: number
  readonly [field: string]: unknown
}

const isNode = (value: unknown): value is Node =>
  typeof value === "object" && value !== null && "type" in value && typeof value.type === "string" && "start" in value

const listChildren = (node: Node): ReadonlyArray<Node> =>
  Object.values(node).flatMap((value) => (Array.isArray(value) ? value.filter(isNode) : isNode(value) ? [value] : []))

const listNodes = (node: Node): ReadonlyArray<Node> => [node, ...listChildren(node).flatMap(listNodes)]

const readName = (value: unknown): string | undefined =>
  isNode(value) && value.type === "Identifier" && typeof value["name"] === "string" ? value["name"] : undefined

/** Name of a function that is called or passed: `Effect.sleep`, `setTimeout`. */
const readPath = (value: unknown): string => {
  const name = readName(value)
  if (name !== undefined) return name
  if (!isNode(value) || value.type !== "MemberExpression") return ""
  return `${readName(value["object"]) ?? ""}.${readName(value["property"]) ?? ""}`
}

const isCall = (node: Node): boolean => node.type === "CallExpression"

const pauses = new Set(["Effect.sleep", "Effect.delay", "DurableClock.sleep", "setTimeout"])
const isPause = (node: Node): boolean => isCall(node) && pauses.has(readPath(node["callee"]))

/** Names of the effects of a module that have a pause. */
const findPausedEffects = (nodes: ReadonlyArray<Node>): ReadonlySet<string> =>
  new Set(
    nodes.flatMap(({ id, init, type }) => {
      const name = type === "VariableDeclarator" && isNode(init) && isCall(init) ? readName(id) : undefined
      return name !== undefined && isNode(init) && listNodes(init).some(isPause) ? [name] : []
    })
  )

const loops = new Set(["ForStatement", "ForOfStatement", "ForInStatement", "WhileStatement", "DoWhileStatement"])

/** The arguments of a call, and for `x.pipe(…)` those and `x`. */
const listOperands = (node: Node): ReadonlyArray<Node> => {
  const { arguments: given, callee } = node
  const piped = isNode(callee) && callee.type === "MemberExpression" && readName(callee["property"]) === "pipe"
  return [
    ...(piped && isNode(callee["object"]) ? [callee["object"]] : []),
    ...(Array.isArray(given) ? given.filter(isNode) : [])
  ]
}

/** True for `Effect.repeat(…)` and `Effect.retry(…)` with options that have no schedule. */
const isUnpaced = (node: Node): boolean => {
  if (!isCall(node) || !["Effect.repeat", "Effect.retry"].includes(readPath(node["callee"]))) return false
  const options = listOperands(node).at(-1)
  return (
    options?.type === "ObjectExpression" &&
    !listChildren(options).some((property) => readName(property["key"]) === "schedule")
  )
}

const isRepetition = (node: Node): boolean => readPath(node) === "Effect.forever" || isUnpaced(node)

/** Describes a repetition that a node is, if a pause is in it. */
const describeRepetition = (node: Node, paused: ReadonlySet<string>): string | undefined => {
  const hasPause = (part: Node): boolean =>
    listNodes(part).some((each) => isPause(each) || paused.has(readName(each) ?? ""))
  if (isCall(node)) {
    if (readPath(node["callee"]) === "setInterval") return "an interval"
    const operands = listOperands(node)
    const isRepeated = readPath(node["callee"]) === "Effect.forever" || isUnpaced(node) || operands.some(isRepetition)
    return isRepeated && operands.some(hasPause) ? "a repetition without a schedule" : undefined
  }
  if (loops.has(node.type)) return hasPause(node) ? "a loop" : undefined
  const { id, init } = node
  const name = node.type === "VariableDeclarator" ? readName(id) : undefined
  if (name === undefined || !isNode(init)) return undefined
  const inside = listNodes(init)
  const isRecursive = inside.some(
    (each) => isCall(each) && [each["callee"], ...listOperands(each)].some((used) => readName(used) === name)
  )
  return isRecursive && inside.some(isPause) ? "a recursion" : undefined
}

const findRepetitions = (text: string, path: string): ReadonlyArray<string> => {
  // Most modules have no pause, and need no parser.
  if (!/\bsleep\(|\.delay\(|setTimeout|setInterval/.test(text)) return []
  const program = parseAst(text, { lang: "ts" }, path)
  if (!isNode(program)) return []
  const nodes = listNodes(program)
  const paused = findPausedEffects(nodes)
  return nodes.flatMap((node) => describeRepetition(node, paused) ?? [])
}

/** Modules that wait by hand, each with its reason. */
const reasons: Readonly<Record<string, string>> = {
  "agent/TenantSpending.ts":
    "the ledger states how long a call waits; the wait is cut short by the end of another call",
  "base/domain/IsolatedCall.ts": "the deadline of a call; it moves while the call is paused, and is computed again",
  "base/platform/Deadlines.ts": "one timer of Node for the deadlines of all requests, outside of any fiber",
  "base/platform/ProcessGroups.ts": "waits for processes, which end in real time, also under a TestClock",
  "base/platform/StreamedResponse.ts": "a timer of Node that watches a stream, outside of any fiber",
  "kit/testing/PlayedRuns.ts": "returns to the event loop of Node while the clock of the test does not move",
  "models/routing/RateLimitGate.ts": "a place in a queue: the pause is cut short by a signal and computed again",
  "models/routing/StreamTimeout.ts": "the next deadline of a stream, computed from the last part that arrived",
  "observe/AtofWriter.ts": "the pause between batches is cut short when the writer closes",
  "observe/studio/page/WorkflowPage.ts": "a timer of the browser until the workflow ends, outside of any fiber",
  "store/sqlite/Database.ts": "a checkpoint follows a write, not a schedule: an idle database makes none",
  "program/cli/internal/Start.ts": "one deadline for the end of the program, set by the handler of each signal",
  "serve/cluster/RunWorkflow.ts": "a durable wait of a workflow, which another runner may end",
  "store/RemoteSession.ts": "the state of a message decides what follows, and the sum of the pauses bounds the wait",
  "serve/cluster/workflow/AgentQuestions.ts": "a durable wait of a workflow, which an answer ends"
}

describe("waits", () => {
  it("loops, recursions and endless repetitions with a pause are found", () => {
    const found = (code: string) => findRepetitions(code, "example.ts")
    assert.deepStrictEqual(found("for (;;) yield* Effect.sleep(2 ** tried)".replace(/^/, "function* f() { ") + " }"), [
      "a loop"
    ])
    assert.deepStrictEqual(found("const look = () => Effect.andThen(Effect.sleep(1), look)"), ["a recursion"])
    assert.deepStrictEqual(found("Effect.forever(Effect.andThen(look, Effect.sleep(1)))"), [
      "a repetition without a schedule"
    ])
    assert.deepStrictEqual(found("look.pipe(Effect.andThen(Effect.sleep(1)), Effect.forever, Effect.forkScoped)"), [
      "a repetition without a schedule"
    ])
    assert.deepStrictEqual(found("look.pipe(Effect.delay(1), Effect.repeat({ while: isOpen }))"), [
      "a repetition without a schedule"
    ])
    assert.deepStrictEqual(found("look.pipe(Effect.repeat({ while: isOpen, schedule: looks }), Effect.delay(1))"), [])
    assert.deepStrictEqual(found("Effect.raceFirst(work, Effect.sleep(1))"), [])
  })

  it("what is repeated after a pause is repeated by a schedule", () => {
    const found = new Map(
      sources().flatMap(({ path, text }) => {
        const repetitions = findRepetitions(text, path)
        return repetitions.length === 0 ? [] : [[path, repetitions.join(", ")] as const]
      })
    )
    const unexplained = Array.from(found).filter(([path]) => reasons[path] === undefined)
    assert.deepStrictEqual(unexplained, [], "use a Schedule, or state the reason here")
    const idle = Object.keys(reasons).filter((path) => !found.has(path))
    assert.deepStrictEqual(idle, [], "these modules no longer wait by hand: remove them here")
  })
})
