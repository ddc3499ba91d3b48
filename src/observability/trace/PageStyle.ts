/**
 * The style of the page, light and dark.
 *
 * @since 0.1.0
 */
export const style = String.raw`
:root{color-scheme:light dark;--bg:#fff;--panel:#f7f8fa;--fg:#1b2330;--dim:#5c6675;--line:#dde2ea;--hot:#e8f0fe;--focus:#1a5fd0;
--agent:#64748b;--user:#1f7a46;--system:#8a6a12;--llm:#2558c4;--tool:#7d35ab;--approval:#b3541e;--mark:#7b8494;--bad:#c02626;--good:#1f7a46;--hit:#ffe58a}
@media(prefers-color-scheme:dark){:root{--bg:#12161c;--panel:#181d25;--fg:#dfe5ee;--dim:#949fb0;--line:#2b323d;--hot:#1c2b47;--focus:#7fb0ff;
--agent:#8b98ac;--user:#62bd88;--system:#d0ad52;--llm:#7aa7fa;--tool:#c48be8;--approval:#e8965f;--mark:#7d8798;--bad:#f27878;--good:#62bd88;--hit:#6b5a14}}
*{box-sizing:border-box}html,body{height:100%;margin:0}[hidden]{display:none!important}
body{display:flex;flex-direction:column;background:var(--bg);color:var(--fg);font:13px/1.5 system-ui,sans-serif}
header{padding:10px 16px 8px;display:flex;gap:10px 18px;align-items:center;flex-wrap:wrap}
h1{font-size:14px;font-weight:650;margin:0;letter-spacing:.01em}
#views{display:flex;gap:4px;min-width:0;flex-wrap:wrap}
.tab{max-width:340px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
#sums{display:flex;gap:4px 16px;flex-wrap:wrap;color:var(--dim);margin-left:auto}
.sum b{color:var(--fg);font-weight:600;font-variant-numeric:tabular-nums}.sum.bad,.sum.bad b{color:var(--bad)}
button,input{font:inherit;color:inherit;background:var(--bg);border:1px solid var(--line);border-radius:6px;padding:2px 9px}
button{cursor:pointer}button:hover:not(:disabled){border-color:var(--dim)}button:disabled{opacity:.5;cursor:default}
button[aria-pressed=true],button[aria-selected=true]{background:var(--hot);border-color:var(--focus)}
.chip{display:inline-flex;gap:4px}.chip[aria-pressed=false]{color:var(--dim);text-decoration:line-through}
:focus-visible{outline:2px solid var(--focus);outline-offset:-1px}
#tools{padding:0 16px 8px;display:flex;gap:6px;align-items:center;flex-wrap:wrap}
#search{width:260px;padding:3px 9px}#kinds{display:flex;gap:4px;flex-wrap:wrap}
.gap{flex:1}#count{color:var(--dim);font-variant-numeric:tabular-nums}
#map{height:92px;width:100%;display:block;border-block:1px solid var(--line);background:var(--panel);cursor:crosshair;flex:none;touch-action:none}
.diff #map,.diff #axisRow{display:none}
main{flex:1;display:flex;min-height:0;border-top:1px solid var(--line)}.diff main{margin-top:0}
#left{flex:3;display:flex;flex-direction:column;min-width:0}
#axisRow{display:flex;gap:10px;padding:0 14px 0 10px;height:20px;flex:none;border-bottom:1px solid var(--line);color:var(--dim);font-size:11px;align-items:center;overflow-y:scroll;scrollbar-color:transparent transparent}
#axisRow>:first-child{flex:1}#axis{position:relative;flex:none;width:26%;height:100%}#axis span{position:absolute;top:2px;padding-left:3px;border-left:1px solid var(--line);white-space:nowrap}
#list:focus-visible{outline-width:1px}#list{flex:1;overflow:auto;overflow-y:scroll;position:relative;min-height:0}
#detail{flex:2;overflow:auto;border-left:1px solid var(--line);padding:12px 16px 32px;min-width:0;background:var(--panel)}
#room{position:relative}#none{padding:24px;color:var(--dim)}
.row{position:absolute;left:0;right:0;height:26px;display:flex;align-items:center;gap:10px;padding:0 14px 0 10px;white-space:nowrap;cursor:pointer}
.row:hover{background:var(--panel)}.row.on{background:var(--hot);box-shadow:inset 3px 0 var(--focus)}
.what{flex:1;display:flex;gap:7px;align-items:center;min-width:0;overflow:hidden}
.fold{width:14px;flex:none;color:var(--dim);text-align:center}
.kind{flex:none;width:14px;text-align:center;font-weight:700}
.name{flex:none;max-width:240px;overflow:hidden;text-overflow:ellipsis;font-weight:600}
.text{flex:1;overflow:hidden;text-overflow:ellipsis;color:var(--dim);min-width:30px}
.status{border:1px solid currentColor;border-radius:4px;padding:0 5px;font-size:11px;color:var(--dim);margin-left:2px}h2 .status{margin-left:8px}.status.bad,.bad .name{color:var(--bad)}
.cost,.time{flex:none;text-align:right;color:var(--dim);font-variant-numeric:tabular-nums}.cost{width:104px}.time{width:72px}
.track{flex:none;width:26%;height:12px;position:relative;background:linear-gradient(var(--line),var(--line)) 0 50%/100% 1px no-repeat}
.bar{position:absolute;top:2px;height:8px;border-radius:2px;min-width:3px}.bar.around{opacity:.35}
mark{background:var(--hit);color:inherit;border-radius:2px}
.sign{flex:none;width:14px;text-align:center;font-weight:700}.half{flex:1;min-width:0;display:flex}.half+.half{border-left:1px solid var(--line);padding-left:10px}
.changed .sign{color:var(--system)}.removed .sign{color:var(--bad)}.added .sign{color:var(--good)}.same{opacity:.62}
.changed{background:color-mix(in srgb,var(--system) 9%,transparent)}.removed{background:color-mix(in srgb,var(--bad) 9%,transparent)}.added{background:color-mix(in srgb,var(--good) 9%,transparent)}
#detail h2{font-size:15px;margin:2px 0 6px;overflow-wrap:anywhere}#detail h3{font-size:12px;margin:16px 0 4px;color:var(--dim);display:flex;align-items:center;gap:8px;font-weight:600}
#detail dl{display:grid;grid-template-columns:auto 1fr;gap:1px 14px;margin:0}#detail dt{color:var(--dim)}#detail dd{margin:0;overflow-wrap:anywhere;font-variant-numeric:tabular-nums}#detail dd.bad{color:var(--bad);font-weight:600}
.dim{color:var(--dim)}.trail{color:var(--dim);font-size:12px;margin-bottom:4px;overflow-wrap:anywhere}.link{border:0;background:none;padding:0;color:var(--focus);text-decoration:underline}
.copy,.more{font-size:11px;padding:0 7px}.more{margin-top:4px}
pre{margin:0;padding:8px 10px;white-space:pre-wrap;overflow-wrap:anywhere;background:var(--bg);border:1px solid var(--line);border-radius:6px;font:12px/1.5 ui-monospace,"DejaVu Sans Mono",monospace}
.j,.j-line{font:12px/1.6 ui-monospace,"DejaVu Sans Mono",monospace;overflow-wrap:anywhere}.j .j,.j .j-line{margin-left:16px}.j-line{padding-left:13px;text-indent:-13px}.j-text{text-indent:0}
summary{cursor:pointer;list-style-position:outside}.j>summary{list-style:none}.j>summary::before{content:"▸ ";color:var(--dim)}.j[open]>summary::before{content:"▾ "}
.j-key{color:var(--llm)}.j-string{color:var(--good)}.j-number,.j-boolean,.j-null{color:var(--approval)}.j-count{color:var(--dim);font-size:11px}
.message{border:1px solid var(--line);border-radius:6px;background:var(--bg);margin-top:4px;padding:4px 10px}.message>summary{overflow:hidden;text-overflow:ellipsis;white-space:nowrap;color:var(--dim)}.message[open]>summary{margin-bottom:4px}.message pre{border:0;padding:4px 0}
.sides{display:grid;grid-template-columns:1fr 1fr;gap:14px}.lines span{display:block;margin:0 -10px;padding:0 10px;white-space:pre-wrap}.minus{background:color-mix(in srgb,var(--bad) 14%,transparent)}.plus{background:color-mix(in srgb,var(--good) 14%,transparent)}
dialog{border:1px solid var(--line);border-radius:10px;background:var(--bg);color:var(--fg);padding:16px 22px;max-width:460px}dialog::backdrop{background:rgb(0 0 0/.4)}dialog dl{display:grid;grid-template-columns:auto 1fr;gap:4px 16px;margin:8px 0 14px}dialog dd{margin:0}kbd{font:12px ui-monospace,monospace;border:1px solid var(--line);border-radius:4px;padding:0 5px;background:var(--panel)}
@media(max-width:900px){main{flex-direction:column}#detail{border-left:0;border-top:1px solid var(--line)}.cost{display:none}.track,#axis{width:20%}#map{height:64px}}
@media print{#tools,#map,#axisRow{display:none}}
`
