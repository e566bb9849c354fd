#include "cli/partition_picture.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "env/core/error.h"
#include "env/core/units.h"

namespace weir::cli {
namespace {

using namespace partitioner;  // NOLINT: this file is about nothing else

struct Place {
  int row = 0, column = 0;
};

// Rows by the longest path within the part, columns by the mean column of the predecessors: chains stay straight, branches fan
// out.
std::vector<Place> LayOut(const OperatorGraph& graph, const std::vector<int>& part_of) {
  const int n = static_cast<int>(graph.operators.size());
  std::vector<Place> places(n);
  std::map<std::pair<int, int>, std::vector<int>> rows;  // (part, row)
  for (int i = 0; i < n; ++i) {
    for (int t : graph.operators[i].inputs) {
      const int p = graph.tensors[t].producer;
      if (p >= 0 && part_of[p] == part_of[i]) places[i].row = std::max(places[i].row, places[p].row + 1);
    }
    rows[{part_of[i], places[i].row}].push_back(i);
  }
  for (auto& [key, members] : rows) {
    std::vector<std::pair<double, int>> wish;
    for (int i : members) {
      double sum = 0;
      int count = 0;
      for (int t : graph.operators[i].inputs) {
        const int p = graph.tensors[t].producer;
        if (p < 0 || part_of[p] != part_of[i]) continue;
        sum += places[p].column;
        ++count;
      }
      wish.emplace_back(count > 0 ? sum / count : 0, i);
    }
    std::stable_sort(wish.begin(), wish.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    int next = 0;
    for (const auto& [column, i] : wish) {
      places[i].column = std::max(next, static_cast<int>(column));
      next = places[i].column + 1;
    }
  }
  return places;
}

constexpr const char* kPage = R"html(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>@TITLE@</title>
<style>
:root{color-scheme:light dark;--bg:#fff;--fg:#1b1f24;--dim:#57606a;--line:#8c959f;--cut:#b3261e;--panel:#f6f8fa}
@media (prefers-color-scheme:dark){:root{--bg:#0f1419;--fg:#e6edf3;--dim:#9aa4ae;--line:#6e7781;--cut:#ff8a80;--panel:#1b222a}}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--fg);font:14px/1.4 system-ui,sans-serif;display:flex;flex-direction:column;height:100vh}
header{padding:8px 12px;border-bottom:1px solid var(--line)}h1{font-size:16px;margin:0 0 4px}
#legend{display:flex;flex-wrap:wrap;gap:6px}#legend button{border:1px solid var(--line);background:var(--panel);color:var(--fg);border-radius:4px;padding:2px 8px;font:inherit;font-size:12px;text-align:left;cursor:pointer}
#legend button[aria-pressed=true]{outline:2px solid var(--fg)}#legend i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:5px}
#tools{display:flex;gap:6px;margin-top:6px;flex-wrap:wrap}#tools button,#tools input{font:inherit;font-size:13px;background:var(--panel);color:var(--fg);border:1px solid var(--line);border-radius:4px;padding:2px 8px}
main{flex:1;min-height:0;position:relative}svg{width:100%;height:100%;display:block;touch-action:none;cursor:grab}
#tip{position:absolute;left:8px;bottom:8px;max-width:min(520px,calc(100% - 16px));background:var(--panel);border:1px solid var(--line);border-radius:4px;padding:6px 8px;font-size:12px;white-space:pre-wrap;overflow-wrap:anywhere}
text{fill:var(--fg);font:11px system-ui,sans-serif;pointer-events:none}.op text{fill:#10151a}.lane{fill:var(--panel);stroke:var(--line)}.arc{fill:none;stroke:var(--line);stroke-width:1}
.cut{fill:none;stroke:var(--cut);stroke-width:2}.cuttext{fill:var(--cut);font-weight:600;paint-order:stroke;stroke:var(--bg);stroke-width:3px}.faded{opacity:.15}.op:focus rect,.hit rect{stroke:var(--fg);stroke-width:2.5}
</style></head><body>
<header><h1>@HEADING@</h1><div id="legend" role="group" aria-label="Parts"></div>
<div id="tools"><button id="fit">Fit (0)</button><button id="in" aria-label="Zoom in">+</button><button id="out" aria-label="Zoom out">&minus;</button>
<input id="find" type="search" placeholder="Find an operator" aria-label="Find an operator"></div></header>
<main><svg id="view" tabindex="0" role="img" aria-label="Operators by part"></svg><div id="tip">Drag to move, wheel or pinch to zoom, arrows and + - 0 on the keyboard. Click an operator for its numbers; red lines are the tensors that cross between parts.</div></main>
<script type="application/json" id="data">@DATA@</script>
<script>
'use strict';
const d=JSON.parse(document.getElementById('data').textContent),W=128,H=24,GX=12,GY=18,svg=document.getElementById('view'),tip=document.getElementById('tip');
const hues=['#7cb7e8','#f2b25c','#7fcf9a','#e79ac0','#c9b3f0','#e8d75a','#8fd6d2','#e0906f'];
const color=p=>hues[p%hues.length];
const el=(n,a,parent,text)=>{const e=document.createElementNS('http://www.w3.org/2000/svg',n);for(const k in a)e.setAttribute(k,a[k]);if(text!==undefined)e.textContent=text;parent&&parent.appendChild(e);return e};
const laneX=[],laneW=[];let x=0;
d.parts.forEach((p,i)=>{laneX[i]=x;laneW[i]=Math.max(p.columns,1)*(W+GX)+GX;x+=laneW[i]+90});
const total=x-90,rows=Math.max(...d.parts.map(p=>p.rows),2),height=rows*(H+GY)+70;
const g=el('g',{},svg),arcs=el('g',{},g),ops=el('g',{},g),over=el('g',{},g);
d.parts.forEach((p,i)=>{el('rect',{class:'lane',x:laneX[i],y:0,width:laneW[i],height,rx:6},arcs);
 el('text',{x:laneX[i]+10,y:18,style:'font-weight:600;font-size:14px'},over,'part '+i);el('text',{x:laneX[i]+10,y:34},over,p.text)});
const at=o=>({x:laneX[o.part]+GX+o.column*(W+GX),y:50+o.row*(H+GY)});
const groups=d.operators.map((o,i)=>{const p=at(o),n=el('g',{class:'op',tabindex:0,'data-part':o.part},ops);
 el('rect',{x:p.x,y:p.y,width:W,height:H,rx:4,fill:color(o.part)},n);el('text',{x:p.x+6,y:p.y+16},n,o.kind.length>18?o.kind.slice(0,17)+'…':o.kind);
 const show=()=>{tip.textContent=o.kind+'  '+o.name+'\npart '+o.part+'\n'+o.text};n.addEventListener('click',show);n.addEventListener('focus',show);el('title',{},n,o.name);return n});
d.arcs.forEach(([a,b])=>{const p=at(d.operators[a]),q=at(d.operators[b]),x1=p.x+W/2,y1=p.y+H,x2=q.x+W/2,y2=q.y,m=Math.max((y2-y1)/2,12);
 el('path',{class:'arc',d:`M${x1},${y1}C${x1},${y1+m} ${x2},${y2-m} ${x2},${y2}`},arcs)});
d.cuts.forEach(c=>{c.ends.forEach((e,k)=>{const o=c.operator,p=o>=0?at(d.operators[o]):{x:laneX[c.from],y:height/2},q=e[1]>=0?at(d.operators[e[1]]):{x:laneX[e[0]],y:height/2};
 const x1=p.x+W,y1=p.y+H/2,x2=q.x,y2=q.y+H/2,m=Math.max((x2-x1)/2,30);
 el('path',{class:'cut',d:`M${x1},${y1}C${x1+m},${y1} ${x2-m},${y2} ${x2},${y2}`},over);
 if(k===0){const t=el('text',{class:'cuttext',x:laneX[c.from]+laneW[c.from]+6,y:y1-6+(c.slot||0)*13},over,c.text);el('title',{},t,c.name)}})});
const legend=document.getElementById('legend');let only=-1;
d.parts.forEach((p,i)=>{const b=document.createElement('button');b.setAttribute('aria-pressed','false');const s=document.createElement('i');s.style.background=color(i);b.append(s,'part '+i+': '+p.text);
 b.onclick=()=>{only=only===i?-1:i;[...legend.children].forEach((c,j)=>c.setAttribute('aria-pressed',String(j===only)));groups.forEach((n,j)=>n.classList.toggle('faded',only>=0&&d.operators[j].part!==only))};legend.append(b)});
let box={x:0,y:0,w:1,h:1};
const apply=()=>svg.setAttribute('viewBox',`${box.x} ${box.y} ${box.w} ${box.h}`);
const fit=()=>{const r=svg.getBoundingClientRect(),s=Math.max((total+40)/r.width,(height+40)/r.height);box={w:r.width*s,h:r.height*s};box.x=total/2-box.w/2;box.y=height/2-box.h/2;apply()};
const zoom=(f,cx=.5,cy=.5)=>{const w=box.w*f,h=box.h*f;box.x+=(box.w-w)*cx;box.y+=(box.h-h)*cy;box.w=w;box.h=h;apply()};
svg.addEventListener('wheel',e=>{e.preventDefault();const r=svg.getBoundingClientRect();zoom(e.deltaY>0?1.15:1/1.15,(e.clientX-r.left)/r.width,(e.clientY-r.top)/r.height)},{passive:false});
const held=new Map();let moved=0;
svg.addEventListener('pointerdown',e=>{held.set(e.pointerId,[e.clientX,e.clientY]);moved=0});
svg.addEventListener('pointermove',e=>{const was=held.get(e.pointerId);if(!was)return;const r=svg.getBoundingClientRect();
 if(held.size===2){const o=[...held].find(([k])=>k!==e.pointerId)[1],a=Math.hypot(was[0]-o[0],was[1]-o[1]),b=Math.hypot(e.clientX-o[0],e.clientY-o[1]);if(a&&b)zoom(a/b)}
 else{box.x-=(e.clientX-was[0])*box.w/r.width;box.y-=(e.clientY-was[1])*box.h/r.height;moved+=1;if(moved>3&&!svg.hasPointerCapture(e.pointerId))svg.setPointerCapture(e.pointerId);apply()}
 held.set(e.pointerId,[e.clientX,e.clientY])});
['pointerup','pointercancel','pointerleave'].forEach(t=>svg.addEventListener(t,e=>held.delete(e.pointerId)));
svg.addEventListener('keydown',e=>{const s=.1;const k={'+':()=>zoom(1/1.2),'=':()=>zoom(1/1.2),'-':()=>zoom(1.2),'0':fit,ArrowLeft:()=>{box.x-=box.w*s;apply()},ArrowRight:()=>{box.x+=box.w*s;apply()},ArrowUp:()=>{box.y-=box.h*s;apply()},ArrowDown:()=>{box.y+=box.h*s;apply()}}[e.key];if(k){k();e.preventDefault()}});
document.getElementById('fit').onclick=fit;document.getElementById('in').onclick=()=>zoom(1/1.3);document.getElementById('out').onclick=()=>zoom(1.3);
document.getElementById('find').oninput=e=>{const q=e.target.value.toLowerCase();let first=null;groups.forEach((n,i)=>{const o=d.operators[i],hit=q.length>0&&(o.name+' '+o.kind).toLowerCase().includes(q);n.classList.toggle('hit',hit);if(hit&&!first)first=o});
 if(first){const p=at(first),r=svg.getBoundingClientRect();box.w=Math.min(box.w,900);box.h=box.w*r.height/r.width;box.x=p.x+W/2-box.w/2;box.y=p.y-box.h/2;apply()}};
addEventListener('resize',fit);fit();
</script></body></html>
)html";

std::string Escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

void Substitute(std::string* page, const std::string& mark, const std::string& text) {
  for (auto at = page->find(mark); at != std::string::npos; at = page->find(mark, at + text.size()))
    page->replace(at, mark.size(), text);
}

std::string Bytes(std::int64_t bytes) {
  return FormatBytes(static_cast<double>(bytes));
}
std::string Count(std::int64_t count) {
  return FormatCount(static_cast<double>(count));
}

}  // namespace

std::string PartitionPicture(const OperatorGraph& graph, const PartPlan& plan, const std::string& heading,
                             const std::vector<std::string>& workers) {
  const std::vector<int>& part_of = plan.partition.part_of;
  const bool all = graph.operators.size() <= kMaxPicturedOperators;
  const std::vector<Place> places = LayOut(graph, part_of);
  nlohmann::ordered_json data;
  data["parts"] = data["operators"] = data["arcs"] = data["cuts"] = nlohmann::ordered_json::array();
  for (const PartSummary& part : plan.parts) {
    const std::string work = graph.measured
                                 ? fmt::format("{:.1f} ms", static_cast<double>(part.forward_flop + part.backward_flop) / 1e6)
                                 : Count(part.forward_flop + part.backward_flop) + "FLOP";
    const std::string where = workers.empty() ? "" : workers[data["parts"].size()] + ": ";
    data["parts"].push_back(
        {{"text", where + fmt::format("{} operators, {}, {}", part.num_operators, work, Bytes(part.memory_bytes))},
         {"rows", 0},
         {"columns", 0}});
  }
  for (std::size_t i = 0; all && i < graph.operators.size(); ++i) {
    const Operator& op = graph.operators[i];
    auto& part = data["parts"][part_of[i]];
    part["rows"] = std::max(part["rows"].get<int>(), places[i].row + 1);
    part["columns"] = std::max(part["columns"].get<int>(), places[i].column + 1);
    std::int64_t weights = 0, out = 0;
    for (int p : op.parameters) weights += graph.parameters[p].elements;
    for (int t : op.outputs) out += graph.tensors[t].bytes;
    const std::string work =
        graph.measured
            ? fmt::format("{:.3f} ms forward, {:.3f} ms backward", static_cast<double>(op.forward_flop) / 1e6,
                          static_cast<double>(op.backward_flop) / 1e6)
            : fmt::format("{} MAC, {}FLOP forward, {}FLOP backward", op.macs, Count(op.forward_flop), Count(op.backward_flop));
    data["operators"].push_back({{"kind", op.kind},
                                 {"name", op.name},
                                 {"part", part_of[i]},
                                 {"row", places[i].row},
                                 {"column", places[i].column},
                                 {"text", fmt::format("{}\n{} weights, {} out, {} kept for the backward pass", work, weights,
                                                      Bytes(out), Bytes(op.saved_bytes))}});
  }
  std::map<int, int> slots;  // labels beside a lane
  for (const CutTensor& cut : plan.cut_tensors) {
    const Tensor& tensor = graph.tensors[cut.tensor];
    nlohmann::ordered_json entry = {{"name", tensor.name},
                                    {"from", cut.from},
                                    {"operator", all ? tensor.producer : -1},
                                    {"text", Bytes(cut.bytes) + (cut.has_gradient ? " ⇄" : " →")},
                                    {"slot", all ? 0 : slots[cut.from]++}};
    entry["ends"] = nlohmann::ordered_json::array();
    for (int to : cut.to) {
      int reader = -1;  // the first there
      for (int r : tensor.readers) {
        if (all && reader < 0 && part_of[r] == to) reader = r;
      }
      entry["ends"].push_back({to, reader});
    }
    data["cuts"].push_back(std::move(entry));
  }
  for (const Tensor& tensor : graph.tensors) {
    for (int reader : tensor.readers) {
      if (all && tensor.producer >= 0 && part_of[reader] == part_of[tensor.producer])
        data["arcs"].push_back({tensor.producer, reader});
    }
  }
  std::string json = data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  Substitute(&json, "<", "\\u003c");  // nothing in the data may end its script element
  std::string page = kPage;
  Substitute(&page, "@TITLE@", Escaped("Weir: " + graph.name));
  Substitute(&page, "@HEADING@", Escaped(heading));
  Substitute(&page, "@DATA@", json);
  return page;
}

}  // namespace weir::cli
