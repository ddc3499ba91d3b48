/**
 * Turns a task into a call of a tool that is offered, or says why there is none.
 *
 * @since 0.1.0
 */
import * as Arguments from "./Arguments.ts"
import type { Offered } from "./Conversation.ts"
import type { Plan, Task } from "./Plan.ts"

/** A tool and what to call it with; or, in words, why the task can not be done. */
export type Chosen =
  | { readonly type: "call"; readonly name: string; readonly arguments: unknown }
  | { readonly type: "missing"; readonly reason: string }

type Way = readonly [tool: string, parameters: Readonly<Record<string, unknown>>]

const quote = (text: string): string =>
  /^[\w./@%+=:,][\w./@%+=:,-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

const listCommand = (pattern: string, path: string): string =>
  pattern === "*" ? `ls -- ${quote(path)}` : `find ${quote(path)} -name ${quote(pattern)}`

const expression = /\.\*|\.\+|\\[wdsbWDSB.]|^\^|\$$|\||\[[^\]]+\]/

const isValid = (pattern: string): boolean => {
  try {
    return new RegExp(pattern, "u").source !== ""
  } catch {
    return false
  }
}

/** `search_files` takes regular expressions: text that does not look like one means itself. */
const patternOf = (text: string): string =>
  expression.test(text) && isValid(text) ? text : text.replace(/[\\^$*+?()[\]{}|]/g, "\\$&")

const todoId = (text: string): string => text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 40)

/** The ways to do a task, the best first. */
const ways = (task: Task, output: string): ReadonlyArray<Way> => {
  switch (task.type) {
    case "read": {
      const { limit, offset, path } = task
      const window = { ...(offset === undefined ? {} : { offset }), ...(limit === undefined ? {} : { limit }) }
      return [["read_file", { path, ...window }], ["terminal", { command: `cat -- ${quote(path)}` }]]
    }
    case "list":
      return [
        ["search_files", { pattern: task.pattern, target: "files", path: task.path }],
        ["terminal", { command: listCommand(task.pattern, task.path) }]
      ]
    case "search":
      return [
        ["search_files", { pattern: patternOf(task.pattern), target: "content", path: task.path }],
        ["terminal", { command: `grep -rn -F -e ${quote(task.pattern)} -- ${quote(task.path)}` }]
      ]
    case "run":
      return [["terminal", { command: task.command }]]
    case "write":
      return [["write_file", { path: task.path, content: task.content ?? output }]]
    case "replace":
      return [["patch", { mode: "replace", path: task.path, old_string: task.from, new_string: task.to }]]
    case "todo":
      return [[
        "todo",
        task.items.length === 0 ? {} : {
          todos: task.items.map((content) => ({ id: todoId(content), content, status: "pending" })),
          merge: true
        }
      ]]
    case "remember":
      return [["memory", { action: "add", target: "memory", content: task.text }]]
    case "web":
      return [["web_search", { query: task.query }]]
    case "delegate":
      return [["delegate_task", { goal: task.goal }]]
    case "call":
      return []
  }
}

/** The one text that a task is about, for a tool that takes one. */
const essence = (task: Task): string => {
  switch (task.type) {
    case "read":
    case "list":
      return task.path
    case "search":
      return task.pattern
    case "run":
      return task.command
    case "write":
    case "replace":
      return task.path
    case "todo":
      return task.items.join(", ")
    case "remember":
    case "call":
      return task.text
    case "web":
      return task.query
    case "delegate":
      return task.goal
  }
}

/** A task in words: `read a.txt`. */
export const title = (task: Task): string => {
  switch (task.type) {
    case "read":
      return `read ${task.path}`
    case "list":
      return `list ${task.pattern === "*" ? "the files" : task.pattern} in ${task.path}`
    case "search":
      return `search for "${task.pattern}" in ${task.path}`
    case "run":
      return `run \`${task.command}\``
    case "write":
      return `write ${task.path}`
    case "replace":
      return `change ${task.path}`
    case "todo":
      return task.items.length === 0 ? "show the todo list" : `add "${task.items.join("\", \"")}" to the todo list`
    case "remember":
      return "remember that"
    case "web":
      return `search the web for "${task.query}"`
    case "delegate":
      return "hand the task to a subagent"
    case "call":
      return `call ${task.tool}`
  }
}

const missing = (reason: string): Chosen => ({ type: "missing", reason })

const notOffered = (names: ReadonlyArray<string>, offered: ReadonlyArray<Offered>): Chosen =>
  missing(
    offered.length === 0
      ? "no tools are offered here"
      : `the tool ${names.join(" or ")} is not offered here (offered: ${offered.map(({ name }) => name).join(", ")})`
  )

/** See the module. `output` is what the last tool gave. */
export const choose = (
  task: Task,
  offered: ReadonlyArray<Offered>,
  forbidden: Plan["forbidden"],
  output: string
): Chosen => {
  if (forbidden === "all") return missing("you asked me to call no tools")
  const possible = ways(task, output)
  const { hint } = task
  const useful = hint !== undefined && (hint.own || possible.some(([name]) => name === hint.tool))
  const hinted = task.type === "call" ? task.tool : useful ? hint.tool : undefined
  const wanted = hinted === undefined ? possible.map(([name]) => name) : [hinted]
  const allowed = wanted.filter((name) => !forbidden.has(name))
  if (allowed.length === 0) return missing(`you asked me not to call ${wanted.join(" or ")}`)
  for (const name of allowed) {
    const tool = offered.find((tool) => tool.name === name)
    if (tool === undefined) continue
    const way = possible.find(([candidate]) => candidate === name)
    const found = way === undefined ? Arguments.read(essence(task), tool.parameters) : way[1]
    return found === undefined
      ? missing(`I do not know what to give the tool ${name}: name its arguments, like ${name} with {"…": …}`)
      : { type: "call", name, arguments: found }
  }
  return notOffered(allowed, offered)
}
