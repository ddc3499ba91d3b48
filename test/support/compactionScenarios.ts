// Long conversations of the work that agents do, the same at every run, with questions whose answers stand in their
// older part; and a summary model that is a script, which knows nothing but the question that it is given.
import * as Prompt from "effect/ai/Prompt"
import type * as Compaction from "../../src/tools/prompt/Compaction.ts"
import * as Effect from "effect/Effect"

/** Kinds of facts that a compacted conversation must still have. */
export const kinds = ["task", "constraint", "file", "error", "decision", "open question"] as const

/** A fact of the older part of a conversation, word for word. */
export interface Fact {
  readonly kind: (typeof kinds)[number]
  readonly text: string
}

/** A conversation without its system prompt. */
export interface Scenario {
  readonly name: string
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly facts: ReadonlyArray<Fact>
}

export const user = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
const says = (text: string) => Prompt.assistantMessage({ content: [Prompt.textPart({ text })] })

/** One round of work: what is said, a call, its result. */
const work = (
  id: string,
  name: string,
  params: unknown,
  output: string,
  said: string
): ReadonlyArray<Prompt.Message> => [
  Prompt.assistantMessage({
    content: [Prompt.textPart({ text: said }), Prompt.toolCallPart({ id, name, params, providerExecuted: false })]
  }),
  Prompt.toolMessage({
    content: [
      Prompt.toolResultPart({
        id,
        name,
        isFailure: output.startsWith("Error"),
        result: output,
        providerExecuted: false
      })
    ]
  })
]

/** Numbers from 0 to 1, the same for the same seed. */
const random = (seed: number) => {
  let state = seed >>> 0
  return () => (state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0) / 0x1_0000_0000
}

const syllables = ["ra", "to", "mi", "len", "sor", "ka", "ven", "du", "pal", "ist", "or", "em"]

interface Shape {
  readonly name: string
  readonly task: string
  readonly newTask: string
  readonly constraints: ReadonlyArray<string>
  readonly open: string
  readonly decision: string
  readonly error: string
  readonly files: ReadonlyArray<string>
}

/** Rounds of work; most of their text is of no use later. */
const rounds = 240

const scenario = (shape: Shape, seed: number): Scenario => {
  const next = random(seed)
  const words = (count: number): string =>
    Array.from({ length: count }, () =>
      Array.from({ length: 1 + Math.floor(next() * 3) }, () => syllables[Math.floor(next() * syllables.length)]).join(
        ""
      )
    ).join(" ")
  const planted = new Map<number, ReadonlyArray<Prompt.Message>>([
    [8, [user(shape.constraints[0] ?? ""), says("Understood.")]],
    [14, [says(`Decision: ${shape.decision}`)]],
    [20, work("e", "terminal", { command: "npm test" }, `Error: ${shape.error}\n${words(300)}`, "I run the tests.")],
    [26, [user(shape.newTask), says("I begin with it.")]],
    [32, [user(shape.open), says("I shall answer when I have seen the rest.")]],
    [38, [user(shape.constraints[1] ?? ""), says("Understood.")]],
    [44, [user("Go on."), says("I go on.")]],
    ...shape.files.map(
      (path, index) =>
        [
          10 + index * 9,
          work(`f${index}`, "write_file", { path, content: words(200) }, "written", `I write ${path}.`)
        ] as const
    )
  ])
  return {
    name: shape.name,
    messages: [
      user(shape.task),
      says("I look around first."),
      ...Array.from({ length: rounds }, (_, round) => [
        ...(planted.get(round) ?? []),
        ...work(
          `r${round}`,
          round % 3 === 0 ? "terminal" : "read_file",
          { path: `lib/${words(1)}${round}.ts` },
          words(20 + Math.floor(next() * 400)),
          `Step ${round}. ${words(20 + Math.floor(next() * 160))}`
        )
      ]).flat(),
      user("Go on.")
    ],
    facts: [
      { kind: "task", text: shape.newTask },
      ...shape.constraints.map((text): Fact => ({ kind: "constraint", text })),
      ...shape.files.map((text): Fact => ({ kind: "file", text })),
      { kind: "error", text: shape.error },
      { kind: "decision", text: shape.decision },
      { kind: "open question", text: shape.open }
    ]
  }
}

export const scenarios: ReadonlyArray<Scenario> = [
  scenario(
    {
      name: "repair of a build",
      task: "The build of the harbour service is broken: find out why and repair it.",
      newTask: "Leave the build for now: make the migration of the berth table work first.",
      constraints: [
        "You must not touch the files below vendor/, they are generated.",
        "Always run the tests with --runInBand on this machine."
      ],
      open: "Is it safe to drop the column berth_old before Friday?",
      decision: "the lock file is made anew, because its checksums are of another registry",
      error: "ENOENT: no such file or directory, open '/srv/harbour/berth.sql'",
      files: ["src/berth/Migration.ts", "src/berth/Table.ts", "db/0042_berth.sql"]
    },
    1
  ),
  scenario(
    {
      name: "a feature over many files",
      task: "Add invitations by e-mail to the calendar.",
      newTask: "Before the e-mails: let people accept an invitation by a link, without an account.",
      constraints: [
        "Never log an address of an e-mail, not in tests either.",
        "You must keep the public API of CalendarStore as it is."
      ],
      open: "Should a link expire when the event is moved?",
      decision: "links are signed with HMAC-SHA256 and name the event and the guest",
      error: "TypeError: Cannot read properties of undefined (reading 'timezone') at Invite.ts:118",
      files: ["app/invite/Link.ts", "app/invite/Accept.tsx", "app/mail/templates/invite.mjml"]
    },
    2
  ),
  scenario(
    {
      name: "an inquiry with sources",
      task: "Compare the three offers for the new pumps and write a recommendation.",
      newTask: "Die Empfehlung soll zuerst die Wartung vergleichen, der Preis kommt danach.",
      constraints: [
        "Prices must always be without tax, in Swiss francs.",
        "Do not name the present supplier in the text."
      ],
      open: "Wer hat das Angebot von Rheintal geprüft?",
      decision: "the offer of Kessler is compared with 12 years of use, as its guarantee says",
      error: "HTTP 451 for https://offers.example/kessler-2031.pdf",
      files: ["offers/kessler.md", "offers/rheintal.md", "report/wartung.md"]
    },
    3
  ),
  scenario(
    {
      name: "operations at night",
      task: "The queue grows since 02:10: find out why.",
      newTask: "Drain the queue invoices-eu by hand, in batches of 500.",
      constraints: [
        "You must not restart broker-2, it holds the only copy.",
        "Always wait for the replication lag to be below 3 seconds."
      ],
      open: "Who changed the retention to 6 hours?",
      decision: "consumers are stopped one zone at a time, beginning with eu-west",
      error: "NotEnoughReplicas: messages are rejected since there are fewer in-sync replicas than required (1 < 2)",
      files: ["runbooks/queue.md", "scripts/drain.sh", "terraform/broker.tf"]
    },
    4
  )
]

const blocks = /\n\n(?=(?:USER: |ASSISTANT: |CALL of |RESULT of ))/u

/** Extracts a note from the question for one, as a model that follows it would: by headings, the earlier note first. */
export const scriptedNote = (question: string, tokens: number): string => {
  const notes = new Map<string, Array<string>>()
  const add = (heading: string, line: string): void => {
    const lines = notes.get(heading) ?? []
    if (!lines.includes(line)) notes.set(heading, [...lines, line])
  }
  const from = question.indexOf("MESSAGES:\n\n")
  let heading = ""
  for (const line of question.slice(0, from).split("\n")) {
    if (line.startsWith("## ")) heading = line.slice(3)
    else if (heading !== "" && line.startsWith("- ")) add(heading, line.slice(2))
  }
  for (const block of question.slice(from + 11).split(blocks)) {
    const text = block.slice(block.indexOf(": ") + 2)
    if (block.startsWith("USER: ")) {
      const isRule = /\b(?:must|always|never|do not)\b/iu.test(text)
      add(
        text.trim().endsWith("?") ? "Pending User Asks" : isRule ? "Constraints & Preferences" : "Active Task",
        text.slice(0, 400).replaceAll("\n", " ")
      )
    } else if (block.startsWith("CALL of write_file")) add("Relevant Files", /"path":"([^"]+)"/u.exec(text)?.[1] ?? "")
    else if (block.startsWith("RESULT of") && text.includes("Error: "))
      add("Blocked", /Error: .*/u.exec(text)?.[0].slice(0, 300) ?? "")
    else if (block.startsWith("ASSISTANT: Decision: ")) add("Key Decisions", text.split("\n")[0] ?? "")
  }
  const note = Array.from(
    notes,
    ([heading, lines]) => `## ${heading}\n${lines.map((line) => `- ${line}`).join("\n")}`
  ).join("\n")
  return note.slice(0, tokens * 4)
}

/** The script as the model that writes notes. */
export const scripted: Compaction.Summarise = ({ maxOutputTokens, message }) =>
  Effect.succeed(
    scriptedNote(
      message.role === "user" ? message.content.map((part) => (part.type === "text" ? part.text : "")).join("") : "",
      maxOutputTokens / 2
    )
  )
