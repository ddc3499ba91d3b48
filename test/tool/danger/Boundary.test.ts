// Which writes need an approval for their place.
import { assert, describe, it } from "@effect/vitest"
import * as Boundary from "../../../src/tool/danger/Boundary.ts"
import { ordinary } from "./ordinary.ts"
import { ordinaryMore } from "./ordinaryMore.ts"

const places: Boundary.Surroundings = {
  cwd: "/home/u/project/src",
  roots: ["/home/u/project"],
  temporary: ["/tmp", "/var/tmp"],
  home: "/home/u",
  agentHomes: ["/srv/agent", "/home/u/.hermes"]
}

const outside: ReadonlyArray<readonly [line: string, path: string]> = [
  ["echo x > /home/u/other/file", "/home/u/other/file"],
  ["echo x >> ~/notes.txt", "/home/u/notes.txt"],
  ["echo x > $HOME/notes.txt", "/home/u/notes.txt"],
  ["echo x > ../../other/file", "/home/u/other/file"],
  ["cd .. && cd .. && echo x > file", "/home/u/file"],
  ["cd $HOME && touch marker", "/home/u/marker"],
  ["cd ~ && touch marker", "/home/u/marker"],
  ["cp a.ts ~/elsewhere/", "/home/u/elsewhere"],
  ["mv ~/elsewhere/a.ts .", "/home/u/elsewhere/a.ts"],
  ["rm ~/elsewhere/a.ts", "/home/u/elsewhere/a.ts"],
  ["mkdir -p /opt/mine", "/opt/mine"],
  ["sed -i s/a/b/ ~/elsewhere/a.ts", "/home/u/elsewhere/a.ts"],
  ["tee ~/elsewhere/a.ts < a", "/home/u/elsewhere/a.ts"],
  ["git clone https://example.com/a ~/elsewhere/a", "/home/u/elsewhere/a"],
  ["git -C ~/elsewhere commit -am x", "/home/u/elsewhere"],
  ["tar xf a.tar -C ~/elsewhere", "/home/u/elsewhere"],
  ["curl -o ~/elsewhere/a https://example.com", "/home/u/elsewhere/a"],
  ["wget -P ~/elsewhere https://example.com", "/home/u/elsewhere"],
  ["find ~/elsewhere -name x -delete", "/home/u/elsewhere"],
  ["gcc a.c -o ~/elsewhere/a", "/home/u/elsewhere/a"],
  ["sh -c 'echo x > ~/elsewhere/a'", "/home/u/elsewhere/a"],
  ["sudo -u other tee /home/u/elsewhere/a", "/home/u/elsewhere/a"],
  ["echo x > /srv/agent/config.yaml", "/srv/agent/config.yaml"],
  ["echo x > /home/u/projects/a", "/home/u/projects/a"]
]

const inside: ReadonlyArray<string> = [
  "echo x > file", "echo x > ../README.md", "echo x > /home/u/project/a", "cat ~/notes.txt > notes.txt", "cp ~/notes.txt .", "rm -r build",
  "mkdir -p dist/a", "echo x > /tmp/a", "git clone https://example.com/a /tmp/a", "ls ~ > /dev/null 2>&1", "git -C ~/elsewhere status",
  "cd /tmp && touch a", "echo x > $OUT/a", "scp a host:/etc/x", "docker run image sh -c 'echo x > /etc/a'", "git commit -m 'rm ~/a > ~/b'",
  "find . -name '*.log' -delete", "gcc a.c -o a", "tar czf a.tgz src", "npm install", "2>&1 make test"
]

describe("Boundary", () => {
  it("names every write outside of the working tree by its absolute path", () => {
    for (const [line, path] of outside) assert.include(Boundary.writes(line, places).map(({ path }) => path), path, line)
  })

  it("says nothing about writes inside, to temporary files, and about reading", () => {
    for (const line of inside) assert.deepStrictEqual(Boundary.writes(line, places), [], line)
  })

  it("raises few questions about what developers type all day", () => {
    const all = [...ordinary, ...ordinaryMore]
    const asked = all.flatMap((line) => Boundary.writes(line, places).map(({ path }) => `${line}: ${path}`))
    assert.isBelow(asked.length / all.length, 0.03, asked.join("\n"))
  })

  it("judges a path: the home of the agent before the tree, what runs later wherever it is, then roots", () => {
    const reason = (path: string, more: Partial<Boundary.Surroundings> = {}) => Boundary.judge(path, { ...places, ...more })
    assert.match(reason("/home/u/.hermes/plugins/a/index.js", { roots: ["/home/u"] }) ?? "", /home directory of hermes/)
    for (const path of ["/home/u/.bashrc", "/home/u/.gitconfig", "/home/u/.local/bin/ls", "/home/u/.config/autostart/a.desktop", "/home/u/project/.git/hooks/pre-commit", "/home/u/project/.git/config", "/home/u/project/.husky/pre-push", "/home/u/project/.vscode/tasks.json", "/home/u/project/.envrc", "/tmp/a/.git/hooks/x"]) {
      assert.match(reason(path, { roots: ["/home/u"] }) ?? "", /^change of /, path)
    }
    assert.isUndefined(reason("/home/u/project/package.json"))
    assert.isUndefined(reason("/home/u/project/.github/workflows/ci.yml"))
    assert.strictEqual(reason("/home/u/project2/a"), "write outside of the working tree")
    assert.strictEqual(reason("/home/u/project/a", { inherited: ["/srv/other"] }), "write outside of the working tree")
    assert.isUndefined(reason("/home/u/project/a", { inherited: ["/home/u"] }))
  })
})
