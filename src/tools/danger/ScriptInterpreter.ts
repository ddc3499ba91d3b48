/**
 * Reads from the text of a script the commands that it would run: expanded, without wrappers, with the data that flows
 * between them, including nested scripts (substitutions, `sh -c`, `eval`, here-documents for a shell, decoded
 * pipelines).
 *
 * **Details**
 *
 * The work is limited: nesting by {@link maxNesting}, expansion by a budget that grows with the text. Exceeding a limit
 * is a `fault`, and a command with a fault never runs. Exceeding a bound is a `fault`, and the floor fails closed on
 * it.
 */
import { type Command, type Field, toKnownField, type Redirect } from "./Command.ts"
import * as WordExpansion from "./WordExpansion.ts"
import * as EmbeddedCommands from "./EmbeddedCommands.ts"
import * as Syntax from "../shell/ShellScript.ts"
import * as Tree from "../shell/ShellTree.ts"
import * as Wrappers from "./Wrappers.ts"
import { computeOutput, type Place, changeDirectory } from "./CommandEffects.ts"

/** Maximum depth of scripts within scripts, and of programs that run programs. */
const maxNesting = 10

const maxGroups = 200

/** Commands and findings read from a text. */
interface Reading {
  readonly commands: ReadonlyArray<Command>
  readonly fault: string | undefined
}

interface Frame {
  readonly closer: string
  readonly from: number
  readonly place: Place
  readonly input: ReadonlyArray<Command>
  readonly stdin: string | undefined
  readonly name: string | undefined
}

/** Open groups of a script, and the data that flows to its next command. */
interface Flow {
  readonly frames: Array<Frame>
  input: ReadonlyArray<Command>
  stdin: string | undefined
  /** Name of the function whose body follows. */
  pending: string | undefined
}

const closers: Readonly<Record<string, string>> = {
  "{": "}",
  "(": ")",
  if: "fi",
  while: "done",
  until: "done",
  for: "done",
  select: "done",
  case: "esac"
}

/** Keywords whose command is a list of items. */
const looping = new Set(["for", "select", "case"])

const nameless = toKnownField("")

const connecting = new Set(["!", "then", "else", "elif", "do", "time"])

const assignment = /^([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=/

const declaring = new Set(["export", "declare", "local", "readonly", "typeset"])

/** Returns the name that a word assigns to, if its text begins with `NAME=` outside quotes. */
const readAssignedName = (word: Tree.Word): string | undefined => {
  const [first] = word
  return first?._tag === "Text" && !first.quoted ? assignment.exec(first.text)?.[1] : undefined
}

class Reader {
  readonly out: Array<Command> = []
  fault: string | undefined
  #budget: number
  #nesting = 0
  #place: Place
  readonly #variables = new Map<string, string>()
  readonly #scope: WordExpansion.Scope

  constructor(length: number, cwd: string | undefined) {
    this.#place = { cwd, isAway: false }
    this.#budget = 65_536 + 8 * length
    this.#scope = {
      variables: this.#variables,
      spend: (characters) => this.#spend(characters),
      words: new Map(),
      run: (script) => this.#apart(() => this.script(script, [], undefined))
    }
  }

  #spend(characters: number): boolean {
    this.#budget -= characters + 1
    if (this.#budget < 0) this.fault ??= "it grows too large to be judged"
    return this.#budget >= 0
  }

  /** Runs a part that cannot change the directory of later commands. */
  #apart<A>(run: () => A): A {
    const place = this.#place
    const out = run()
    this.#place = place
    return out
  }

  /** Reads a script that is contained in another script as text. */
  text(text: string, input: ReadonlyArray<Command>, stdin: string | undefined, trusted: boolean): void {
    if (this.#nesting >= maxNesting) {
      this.fault ??= "it nests too deeply"
      return
    }
    if (!this.#spend(text.length)) return
    const script = Syntax.read(text)
    // The unknown values may have contained the missing quote.
    if (script.fault !== undefined && trusted) this.fault ??= script.fault
    this.#nesting++
    this.script(script, input, stdin)
    this.#nesting--
  }

  /** Opens a group at its first keyword. */
  #openFrame(word: string, from: number, flow: Flow): void {
    const isGrouping = word === "{" || word === "("
    flow.frames.push({
      closer: closers[word] ?? "",
      from,
      place: this.#place,
      input: flow.input,
      stdin: flow.stdin,
      name: isGrouping ? flow.pending : undefined
    })
    if (isGrouping) flow.pending = undefined
  }

  /** Closes the innermost group if a keyword ends it. */
  #closeFrame(word: string, { frames }: Flow): Frame | undefined {
    const frame = frames.at(-1)
    if (word !== frame?.closer) return undefined
    frames.pop()
    if (frame.closer === ")") this.#place = frame.place
    return frame
  }

  /** Defines a function, whose body follows. */
  #defineFunction(name: string | undefined, flow: Flow): void {
    flow.pending = name
    this.#setName(`${name ?? ""}()`, "")
  }

  /** Reads the keywords before a command. Returns the position of the command, and the group that they close. */
  #readKeywords(
    words: ReadonlyArray<Tree.Word>,
    from: number,
    flow: Flow
  ): { readonly at: number; readonly closed: Frame | undefined } {
    let closed: Frame | undefined
    let at = 0
    for (; at < words.length; at++) {
      const word = Tree.readKeyword(words[at])
      if (word === undefined) break
      const frame = this.#closeFrame(word, flow)
      if (frame !== undefined) closed = frame
      else if (Object.hasOwn(closers, word)) {
        this.#openFrame(word, from, flow)
        if (!looping.has(word)) continue
        this.#loop(word, words.slice(at))
        return { at: words.length, closed }
      } else if (word === "function") {
        at++
        this.#defineFunction(Tree.readKeyword(words[at]), flow)
        if (Tree.readKeyword(words[at + 1]) === "()") at++
      } else if (!connecting.has(word)) break
      else if (word === "time" && Tree.readKeyword(words[at + 1]) === "-p") at++
    }
    return { at, closed }
  }

  /** Returns the commands of a script and the output of its last pipeline. */
  script(
    script: Tree.Script,
    input: ReadonlyArray<Command>,
    stdin: string | undefined
  ): { readonly commands: ReadonlyArray<Command>; readonly output: string | undefined } {
    const start = this.out.length
    const flow: Flow = { frames: [], input, stdin, pending: undefined }
    let last: string | undefined
    let simple = 0
    for (const { redirections, terminator, words } of script.commands) {
      const from = this.out.length
      const { at, closed } = this.#readKeywords(words, from, flow)
      if (flow.frames.length > maxGroups) this.fault ??= "it nests too deeply"
      const rest = words.slice(at)
      const defined = Tree.readLiteral(rest[1] ?? []) === "()" ? Tree.readLiteral(rest[0] ?? []) : undefined
      if (defined !== undefined) {
        this.#defineFunction(defined, flow)
        continue
      }
      const inside = flow.frames.flatMap(({ name }) => (name === undefined ? [] : [name]))
      const group = closed === undefined ? [] : this.out.slice(closed.from)
      last = this.#simple(rest, redirections, { input: flow.input, stdin: flow.stdin, terminator, inside })
      simple += rest.length > 0 ? 1 : 0
      if (terminator === "|") {
        flow.input = [...(closed?.input ?? flow.input), ...group, ...this.out.slice(from)]
        flow.stdin = closed === undefined ? last : undefined
      } else {
        const frame = flow.frames.at(-1)
        flow.input = frame?.input ?? input
        flow.stdin = frame?.stdin ?? stdin
      }
      // Groups and pipelines are copied, which also counts against the budget.
      const copied = flow.frames.length + flow.input.length + group.length
      if (this.fault === "it nests too deeply" || !this.#spend(copied)) break
    }
    const isPipeline = script.commands.slice(0, -1).every(({ terminator }) => terminator === "|")
    return { commands: this.out.slice(start), output: isPipeline && simple > 0 ? last : undefined }
  }

  /** In `for x in a b`, x has all the values at once; in `case word`, only the substitutions of the word matter. */
  #loop(keyword: string, words: ReadonlyArray<Tree.Word>): void {
    const fields = words.slice(1).map((word) => WordExpansion.expandWhole(word, this.#scope))
    const name = fields[0]?.text
    // Items are treated as one value; items that begin with a pattern or an unknown part could have any value.
    const isOpen = fields
      .slice(2)
      .some(({ commands, glob, text, unknown }) => unknown || commands.length > 0 || (glob && /^[*?[]/.test(text)))
    if (keyword !== "case" && name !== undefined)
      this.#setName(
        name,
        isOpen
          ? "*"
          : fields
              .slice(2)
              .map(({ text }) => text)
              .join(" ")
      )
    if (keyword !== "case" && name !== undefined && fields.length > 2) {
      this.#variables.set(
        name,
        fields
          .slice(2)
          .map(({ text }) => text)
          .join(" ")
      )
    }
  }

  /** Adds a command for a name that the script sets without an assignment: in a loop or a function definition. */
  #setName(name: string, value: string): void {
    this.out.push({
      program: "",
      called: nameless,
      args: [],
      fields: [],
      redirects: [],
      assignments: [[name, value]],
      input: [],
      stdin: undefined,
      terminator: ";",
      inside: [],
      ...this.#place,
      wrappers: []
    })
  }

  #simple(
    words: ReadonlyArray<Tree.Word>,
    redirections: ReadonlyArray<Tree.Redirection>,
    flow: Pick<Command, "input" | "stdin" | "terminator" | "inside">
  ): string | undefined {
    const redirects = redirections.map(({ operator, target }): Redirect => ({
      operator,
      target: WordExpansion.expandWhole(target, this.#scope)
    }))
    const assignments: Array<readonly [string, string]> = []
    let index = 0
    for (; index < words.length; index++) {
      const word = words[index] ?? []
      const name = readAssignedName(word)
      if (name === undefined) break
      assignments.push(this.#assign(name, WordExpansion.expandWhole(word, this.#scope)))
    }
    const fields = words.slice(index).flatMap((word) => WordExpansion.expand(word, this.#scope))
    const document = redirects.findLast(({ operator }) => operator.startsWith("<<"))
    const file = redirects
      .findLast(({ operator, target }) => operator === "<" && target.commands.length > 0)
      ?.target.commands.at(-1)
    const piped = file === undefined ? flow.stdin : computeOutput(file)
    const stdin = document === undefined ? piped : document.target.unknown ? undefined : document.target.text
    const input = document === undefined ? flow.input : [...flow.input, ...document.target.commands]
    if (fields.length === 0 && redirects.length === 0 && assignments.length === 0) return undefined
    return this.#layers(fields, { ...flow, redirects, assignments, stdin, input, ...this.#place, wrappers: [] })
  }

  #assign(name: string, field: Field): readonly [string, string] {
    const at = field.text.indexOf("=")
    const value = field.text.slice(at + 1)
    const whole = field.text.charAt(at - 1) === "+" ? (this.#variables.get(name) ?? "") + value : value
    if (field.unknown) this.#variables.delete(name)
    else if (this.#spend(whole.length)) this.#variables.set(name, whole)
    return [name, value]
  }

  /** Reads a command and, below its wrappers, the command that is finally run. Returns its output. */
  #layers(
    fields: ReadonlyArray<Field>,
    rest: Omit<Command, "program" | "called" | "args" | "fields">
  ): string | undefined {
    let words = fields
    let wrappers = rest.wrappers
    for (let layer = 0; layer < maxNesting; layer++) {
      const [first, ...args] = words
      const program = first === undefined ? "" : Wrappers.resolveProgram(first)
      const command: Command = {
        ...rest,
        program,
        called: first ?? nameless,
        args: args.map(({ text }) => text),
        fields: args,
        wrappers
      }
      this.out.push(command)
      this.#effects(command)
      for (const inner of Wrappers.listExecuted(program, args))
        this.#layers(inner, { ...rest, wrappers: [...wrappers, program] })
      const inner = Wrappers.unwrapCommand(program, args, command.stdin)
      if (inner === undefined || inner.length === 0) return computeOutput(command)
      wrappers = [...wrappers, program]
      words = inner
    }
    this.fault ??= "it nests too deeply"
    return undefined
  }

  /** Applies the effects of a command on later commands, and reads the scripts that it receives. */
  #effects(command: Command): void {
    const { args, fields, program, stdin } = command
    if (/^(?:cd|chdir|pushd|popd)$/.test(program)) this.#place = changeDirectory(this.#place, command)
    else if (declaring.has(program)) {
      for (const field of fields) {
        const name = assignment.exec(field.text)?.[1]
        if (name !== undefined) this.#assign(name, field)
      }
    } else if (program === "read" && stdin !== undefined) {
      const name = args.findLast((arg) => /^[A-Za-z_]\w*$/.test(arg))
      if (name !== undefined) this.#variables.set(name, stdin.trimEnd())
    } else if (program === "printf" && args[0] === "-v") {
      const written = computeOutput({ ...command, args: args.slice(2), fields: fields.slice(2) })
      if (written !== undefined && args[1] !== undefined) this.#variables.set(args[1], written)
    }
    const script = EmbeddedCommands.findScript(program, fields)
    if (script !== undefined) {
      const run = () => this.text(script.text, command.input, stdin, !script.unknown)
      if (program === "eval") run()
      else this.#apart(run)
    } else if (stdin !== undefined && isScriptReader(command)) this.#apart(() => this.text(stdin, [], undefined, false))
    for (const text of EmbeddedCommands.listEmbeddedCommands(command)) {
      if (text !== "") this.#apart(() => this.text(text, [], undefined, false))
    }
  }
}

/** Returns true for a shell or `source` without a file to read. */
const isScriptReader = ({ args, fields, program }: Command): boolean => {
  if (program === "source" || program === ".") return args[0] === "/dev/stdin" || args[0] === "-"
  return (
    EmbeddedCommands.shells.has(program) &&
    (fields.every(({ text }) => text.startsWith("-")) || args.includes("-s") || args.includes("/dev/stdin"))
  )
}

/**
 * Reads the commands that the text of a script would run. The script begins in `cwd` if that is known. Never throws.
 */
export const read = (text: string, cwd?: string): Reading => {
  const reader = new Reader(text.length, cwd)
  const script = Syntax.read(text)
  reader.fault = script.fault
  reader.script(script, [], undefined)
  return { commands: reader.out, fault: reader.fault }
}
