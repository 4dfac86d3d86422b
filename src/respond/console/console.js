var it=globalThis,rt=it.ShadowRoot&&(it.ShadyCSS===void 0||it.ShadyCSS.nativeShadow)&&"adoptedStyleSheets"in Document.prototype&&"replace"in CSSStyleSheet.prototype,Dt=Symbol(),It=new WeakMap,nt=class{constructor(t,e,s){if(this._$cssResult$=!0,s!==Dt)throw Error("CSSResult is not constructable. Use `unsafeCSS` or `css` instead.");this.cssText=t,this.t=e}get styleSheet(){let t=this.o,e=this.t;if(rt&&t===void 0){let s=e!==void 0&&e.length===1;s&&(t=It.get(e)),t===void 0&&((this.o=t=new CSSStyleSheet).replaceSync(this.cssText),s&&It.set(e,t))}return t}toString(){return this.cssText}},jt=i=>new nt(typeof i=="string"?i:i+"",void 0,Dt);var Bt=(i,t)=>{if(rt)i.adoptedStyleSheets=t.map(e=>e instanceof CSSStyleSheet?e:e.styleSheet);else for(let e of t){let s=document.createElement("style"),n=it.litNonce;n!==void 0&&s.setAttribute("nonce",n),s.textContent=e.cssText,i.appendChild(s)}},yt=rt?i=>i:i=>i instanceof CSSStyleSheet?(t=>{let e="";for(let s of t.cssRules)e+=s.cssText;return jt(e)})(i):i;var{is:Me,defineProperty:Oe,getOwnPropertyDescriptor:Ue,getOwnPropertyNames:Le,getOwnPropertySymbols:Ne,getPrototypeOf:qe}=Object,ot=globalThis,Ft=ot.trustedTypes,He=Ft?Ft.emptyScript:"",Ie=ot.reactiveElementPolyfillSupport,J=(i,t)=>i,vt={toAttribute(i,t){switch(t){case Boolean:i=i?He:null;break;case Object:case Array:i=i==null?i:JSON.stringify(i)}return i},fromAttribute(i,t){let e=i;switch(t){case Boolean:e=i!==null;break;case Number:e=i===null?null:Number(i);break;case Object:case Array:try{e=JSON.parse(i)}catch{e=null}}return e}},Jt=(i,t)=>!Me(i,t),Wt={attribute:!0,type:String,converter:vt,reflect:!1,useDefault:!1,hasChanged:Jt};Symbol.metadata??=Symbol("metadata"),ot.litPropertyMetadata??=new WeakMap;var _=class extends HTMLElement{static addInitializer(t){this._$Ei(),(this.l??=[]).push(t)}static get observedAttributes(){return this.finalize(),this._$Eh&&[...this._$Eh.keys()]}static createProperty(t,e=Wt){if(e.state&&(e.attribute=!1),this._$Ei(),this.prototype.hasOwnProperty(t)&&((e=Object.create(e)).wrapped=!0),this.elementProperties.set(t,e),!e.noAccessor){let s=Symbol(),n=this.getPropertyDescriptor(t,s,e);n!==void 0&&Oe(this.prototype,t,n)}}static getPropertyDescriptor(t,e,s){let{get:n,set:r}=Ue(this.prototype,t)??{get(){return this[e]},set(o){this[e]=o}};return{get:n,set(o){let a=n?.call(this);r?.call(this,o),this.requestUpdate(t,a,s)},configurable:!0,enumerable:!0}}static getPropertyOptions(t){return this.elementProperties.get(t)??Wt}static _$Ei(){if(this.hasOwnProperty(J("elementProperties")))return;let t=qe(this);t.finalize(),t.l!==void 0&&(this.l=[...t.l]),this.elementProperties=new Map(t.elementProperties)}static finalize(){if(this.hasOwnProperty(J("finalized")))return;if(this.finalized=!0,this._$Ei(),this.hasOwnProperty(J("properties"))){let e=this.properties,s=[...Le(e),...Ne(e)];for(let n of s)this.createProperty(n,e[n])}let t=this[Symbol.metadata];if(t!==null){let e=litPropertyMetadata.get(t);if(e!==void 0)for(let[s,n]of e)this.elementProperties.set(s,n)}this._$Eh=new Map;for(let[e,s]of this.elementProperties){let n=this._$Eu(e,s);n!==void 0&&this._$Eh.set(n,e)}this.elementStyles=this.finalizeStyles(this.styles)}static finalizeStyles(t){let e=[];if(Array.isArray(t)){let s=new Set(t.flat(1/0).reverse());for(let n of s)e.unshift(yt(n))}else t!==void 0&&e.push(yt(t));return e}static _$Eu(t,e){let s=e.attribute;return s===!1?void 0:typeof s=="string"?s:typeof t=="string"?t.toLowerCase():void 0}constructor(){super(),this._$Ep=void 0,this.isUpdatePending=!1,this.hasUpdated=!1,this._$Em=null,this._$Ev()}_$Ev(){this._$ES=new Promise(t=>this.enableUpdating=t),this._$AL=new Map,this._$E_(),this.requestUpdate(),this.constructor.l?.forEach(t=>t(this))}addController(t){(this._$EO??=new Set).add(t),this.renderRoot!==void 0&&this.isConnected&&t.hostConnected?.()}removeController(t){this._$EO?.delete(t)}_$E_(){let t=new Map,e=this.constructor.elementProperties;for(let s of e.keys())this.hasOwnProperty(s)&&(t.set(s,this[s]),delete this[s]);t.size>0&&(this._$Ep=t)}createRenderRoot(){let t=this.shadowRoot??this.attachShadow(this.constructor.shadowRootOptions);return Bt(t,this.constructor.elementStyles),t}connectedCallback(){this.renderRoot??=this.createRenderRoot(),this.enableUpdating(!0),this._$EO?.forEach(t=>t.hostConnected?.())}enableUpdating(t){}disconnectedCallback(){this._$EO?.forEach(t=>t.hostDisconnected?.())}attributeChangedCallback(t,e,s){this._$AK(t,s)}_$ET(t,e){let s=this.constructor.elementProperties.get(t),n=this.constructor._$Eu(t,s);if(n!==void 0&&s.reflect===!0){let r=(s.converter?.toAttribute!==void 0?s.converter:vt).toAttribute(e,s.type);this._$Em=t,r==null?this.removeAttribute(n):this.setAttribute(n,r),this._$Em=null}}_$AK(t,e){let s=this.constructor,n=s._$Eh.get(t);if(n!==void 0&&this._$Em!==n){let r=s.getPropertyOptions(n),o=typeof r.converter=="function"?{fromAttribute:r.converter}:r.converter?.fromAttribute!==void 0?r.converter:vt;this._$Em=n;let a=o.fromAttribute(e,r.type);this[n]=a??this._$Ej?.get(n)??a,this._$Em=null}}requestUpdate(t,e,s,n=!1,r){if(t!==void 0){let o=this.constructor;if(n===!1&&(r=this[t]),s??=o.getPropertyOptions(t),!((s.hasChanged??Jt)(r,e)||s.useDefault&&s.reflect&&r===this._$Ej?.get(t)&&!this.hasAttribute(o._$Eu(t,s))))return;this.C(t,e,s)}this.isUpdatePending===!1&&(this._$ES=this._$EP())}C(t,e,{useDefault:s,reflect:n,wrapped:r},o){s&&!(this._$Ej??=new Map).has(t)&&(this._$Ej.set(t,o??e??this[t]),r!==!0||o!==void 0)||(this._$AL.has(t)||(this.hasUpdated||s||(e=void 0),this._$AL.set(t,e)),n===!0&&this._$Em!==t&&(this._$Eq??=new Set).add(t))}async _$EP(){this.isUpdatePending=!0;try{await this._$ES}catch(e){Promise.reject(e)}let t=this.scheduleUpdate();return t!=null&&await t,!this.isUpdatePending}scheduleUpdate(){return this.performUpdate()}performUpdate(){if(!this.isUpdatePending)return;if(!this.hasUpdated){if(this.renderRoot??=this.createRenderRoot(),this._$Ep){for(let[n,r]of this._$Ep)this[n]=r;this._$Ep=void 0}let s=this.constructor.elementProperties;if(s.size>0)for(let[n,r]of s){let{wrapped:o}=r,a=this[n];o!==!0||this._$AL.has(n)||a===void 0||this.C(n,void 0,r,a)}}let t=!1,e=this._$AL;try{t=this.shouldUpdate(e),t?(this.willUpdate(e),this._$EO?.forEach(s=>s.hostUpdate?.()),this.update(e)):this._$EM()}catch(s){throw t=!1,this._$EM(),s}t&&this._$AE(e)}willUpdate(t){}_$AE(t){this._$EO?.forEach(e=>e.hostUpdated?.()),this.hasUpdated||(this.hasUpdated=!0,this.firstUpdated(t)),this.updated(t)}_$EM(){this._$AL=new Map,this.isUpdatePending=!1}get updateComplete(){return this.getUpdateComplete()}getUpdateComplete(){return this._$ES}shouldUpdate(t){return!0}update(t){this._$Eq&&=this._$Eq.forEach(e=>this._$ET(e,this[e])),this._$EM()}updated(t){}firstUpdated(t){}};_.elementStyles=[],_.shadowRootOptions={mode:"open"},_[J("elementProperties")]=new Map,_[J("finalized")]=new Map,Ie?.({ReactiveElement:_}),(ot.reactiveElementVersions??=[]).push("2.1.2");var St=globalThis,Vt=i=>i,at=St.trustedTypes,Kt=at?at.createPolicy("lit-html",{createHTML:i=>i}):void 0,Et="$lit$",S=`lit$${Math.random().toFixed(9).slice(2)}$`,At="?"+S,De=`<${At}>`,L=document,K=()=>L.createComment(""),z=i=>i===null||typeof i!="object"&&typeof i!="function",xt=Array.isArray,Zt=i=>xt(i)||typeof i?.[Symbol.iterator]=="function",_t=`[ 	
\f\r]`,V=/<(?:(!--|\/[^a-zA-Z])|(\/?[a-zA-Z][^>\s]*)|(\/?$))/g,zt=/-->/g,Gt=/>/g,O=RegExp(`>|${_t}(?:([^\\s"'>=/]+)(${_t}*=${_t}*(?:[^ 	
\f\r"'\`<>=]|("|')|))|$)`,"g"),Yt=/'/g,Xt=/"/g,te=/^(?:script|style|textarea|title)$/i,kt=i=>(t,...e)=>({_$litType$:i,strings:t,values:e}),l=kt(1),ee=kt(2),As=kt(3),w=Symbol.for("lit-noChange"),p=Symbol.for("lit-nothing"),Qt=new WeakMap,U=L.createTreeWalker(L,129);function se(i,t){if(!xt(i)||!i.hasOwnProperty("raw"))throw Error("invalid template strings array");return Kt!==void 0?Kt.createHTML(t):t}var ie=(i,t)=>{let e=i.length-1,s=[],n,r=t===2?"<svg>":t===3?"<math>":"",o=V;for(let a=0;a<e;a++){let c=i[a],d,u,h=-1,m=0;for(;m<c.length&&(o.lastIndex=m,u=o.exec(c),u!==null);)m=o.lastIndex,o===V?u[1]==="!--"?o=zt:u[1]!==void 0?o=Gt:u[2]!==void 0?(te.test(u[2])&&(n=RegExp("</"+u[2],"g")),o=O):u[3]!==void 0&&(o=O):o===O?u[0]===">"?(o=n??V,h=-1):u[1]===void 0?h=-2:(h=o.lastIndex-u[2].length,d=u[1],o=u[3]===void 0?O:u[3]==='"'?Xt:Yt):o===Xt||o===Yt?o=O:o===zt||o===Gt?o=V:(o=O,n=void 0);let f=o===O&&i[a+1].startsWith("/>")?" ":"";r+=o===V?c+De:h>=0?(s.push(d),c.slice(0,h)+Et+c.slice(h)+S+f):c+S+(h===-2?a:f)}return[se(i,r+(i[e]||"<?>")+(t===2?"</svg>":t===3?"</math>":"")),s]},G=class i{constructor({strings:t,_$litType$:e},s){let n;this.parts=[];let r=0,o=0,a=t.length-1,c=this.parts,[d,u]=ie(t,e);if(this.el=i.createElement(d,s),U.currentNode=this.el.content,e===2||e===3){let h=this.el.content.firstChild;h.replaceWith(...h.childNodes)}for(;(n=U.nextNode())!==null&&c.length<a;){if(n.nodeType===1){if(n.hasAttributes())for(let h of n.getAttributeNames())if(h.endsWith(Et)){let m=u[o++],f=n.getAttribute(h).split(S),$=/([.?@])?(.*)/.exec(m);c.push({type:1,index:r,name:$[2],strings:f,ctor:$[1]==="."?ct:$[1]==="?"?ht:$[1]==="@"?dt:q}),n.removeAttribute(h)}else h.startsWith(S)&&(c.push({type:6,index:r}),n.removeAttribute(h));if(te.test(n.tagName)){let h=n.textContent.split(S),m=h.length-1;if(m>0){n.textContent=at?at.emptyScript:"";for(let f=0;f<m;f++)n.append(h[f],K()),U.nextNode(),c.push({type:2,index:++r});n.append(h[m],K())}}}else if(n.nodeType===8)if(n.data===At)c.push({type:2,index:r});else{let h=-1;for(;(h=n.data.indexOf(S,h+1))!==-1;)c.push({type:7,index:r}),h+=S.length-1}r++}}static createElement(t,e){let s=L.createElement("template");return s.innerHTML=t,s}};function N(i,t,e=i,s){if(t===w)return t;let n=s!==void 0?e._$Co?.[s]:e._$Cl,r=z(t)?void 0:t._$litDirective$;return n?.constructor!==r&&(n?._$AO?.(!1),r===void 0?n=void 0:(n=new r(i),n._$AT(i,e,s)),s!==void 0?(e._$Co??=[])[s]=n:e._$Cl=n),n!==void 0&&(t=N(i,n._$AS(i,t.values),n,s)),t}var lt=class{constructor(t,e){this._$AV=[],this._$AN=void 0,this._$AD=t,this._$AM=e}get parentNode(){return this._$AM.parentNode}get _$AU(){return this._$AM._$AU}u(t){let{el:{content:e},parts:s}=this._$AD,n=(t?.creationScope??L).importNode(e,!0);U.currentNode=n;let r=U.nextNode(),o=0,a=0,c=s[0];for(;c!==void 0;){if(o===c.index){let d;c.type===2?d=new j(r,r.nextSibling,this,t):c.type===1?d=new c.ctor(r,c.name,c.strings,this,t):c.type===6&&(d=new pt(r,this,t)),this._$AV.push(d),c=s[++a]}o!==c?.index&&(r=U.nextNode(),o++)}return U.currentNode=L,n}p(t){let e=0;for(let s of this._$AV)s!==void 0&&(s.strings!==void 0?(s._$AI(t,s,e),e+=s.strings.length-2):s._$AI(t[e])),e++}},j=class i{get _$AU(){return this._$AM?._$AU??this._$Cv}constructor(t,e,s,n){this.type=2,this._$AH=p,this._$AN=void 0,this._$AA=t,this._$AB=e,this._$AM=s,this.options=n,this._$Cv=n?.isConnected??!0}get parentNode(){let t=this._$AA.parentNode,e=this._$AM;return e!==void 0&&t?.nodeType===11&&(t=e.parentNode),t}get startNode(){return this._$AA}get endNode(){return this._$AB}_$AI(t,e=this){t=N(this,t,e),z(t)?t===p||t==null||t===""?(this._$AH!==p&&this._$AR(),this._$AH=p):t!==this._$AH&&t!==w&&this._(t):t._$litType$!==void 0?this.$(t):t.nodeType!==void 0?this.T(t):Zt(t)?this.k(t):this._(t)}O(t){return this._$AA.parentNode.insertBefore(t,this._$AB)}T(t){this._$AH!==t&&(this._$AR(),this._$AH=this.O(t))}_(t){this._$AH!==p&&z(this._$AH)?this._$AA.nextSibling.data=t:this.T(L.createTextNode(t)),this._$AH=t}$(t){let{values:e,_$litType$:s}=t,n=typeof s=="number"?this._$AC(t):(s.el===void 0&&(s.el=G.createElement(se(s.h,s.h[0]),this.options)),s);if(this._$AH?._$AD===n)this._$AH.p(e);else{let r=new lt(n,this),o=r.u(this.options);r.p(e),this.T(o),this._$AH=r}}_$AC(t){let e=Qt.get(t.strings);return e===void 0&&Qt.set(t.strings,e=new G(t)),e}k(t){xt(this._$AH)||(this._$AH=[],this._$AR());let e=this._$AH,s,n=0;for(let r of t)n===e.length?e.push(s=new i(this.O(K()),this.O(K()),this,this.options)):s=e[n],s._$AI(r),n++;n<e.length&&(this._$AR(s&&s._$AB.nextSibling,n),e.length=n)}_$AR(t=this._$AA.nextSibling,e){for(this._$AP?.(!1,!0,e);t!==this._$AB;){let s=Vt(t).nextSibling;Vt(t).remove(),t=s}}setConnected(t){this._$AM===void 0&&(this._$Cv=t,this._$AP?.(t))}},q=class{get tagName(){return this.element.tagName}get _$AU(){return this._$AM._$AU}constructor(t,e,s,n,r){this.type=1,this._$AH=p,this._$AN=void 0,this.element=t,this.name=e,this._$AM=n,this.options=r,s.length>2||s[0]!==""||s[1]!==""?(this._$AH=Array(s.length-1).fill(new String),this.strings=s):this._$AH=p}_$AI(t,e=this,s,n){let r=this.strings,o=!1;if(r===void 0)t=N(this,t,e,0),o=!z(t)||t!==this._$AH&&t!==w,o&&(this._$AH=t);else{let a=t,c,d;for(t=r[0],c=0;c<r.length-1;c++)d=N(this,a[s+c],e,c),d===w&&(d=this._$AH[c]),o||=!z(d)||d!==this._$AH[c],d===p?t=p:t!==p&&(t+=(d??"")+r[c+1]),this._$AH[c]=d}o&&!n&&this.j(t)}j(t){t===p?this.element.removeAttribute(this.name):this.element.setAttribute(this.name,t??"")}},ct=class extends q{constructor(){super(...arguments),this.type=3}j(t){this.element[this.name]=t===p?void 0:t}},ht=class extends q{constructor(){super(...arguments),this.type=4}j(t){this.element.toggleAttribute(this.name,!!t&&t!==p)}},dt=class extends q{constructor(t,e,s,n,r){super(t,e,s,n,r),this.type=5}_$AI(t,e=this){if((t=N(this,t,e,0)??p)===w)return;let s=this._$AH,n=t===p&&s!==p||t.capture!==s.capture||t.once!==s.once||t.passive!==s.passive,r=t!==p&&(s===p||n);n&&this.element.removeEventListener(this.name,this,s),r&&this.element.addEventListener(this.name,this,t),this._$AH=t}handleEvent(t){typeof this._$AH=="function"?this._$AH.call(this.options?.host??this.element,t):this._$AH.handleEvent(t)}},pt=class{constructor(t,e,s){this.element=t,this.type=6,this._$AN=void 0,this._$AM=e,this.options=s}get _$AU(){return this._$AM._$AU}_$AI(t){N(this,t)}},ne={M:Et,P:S,A:At,C:1,L:ie,R:lt,D:Zt,V:N,I:j,H:q,N:ht,U:dt,B:ct,F:pt},je=St.litHtmlPolyfillSupport;je?.(G,j),(St.litHtmlVersions??=[]).push("3.3.3");var re=(i,t,e)=>{let s=e?.renderBefore??t,n=s._$litPart$;if(n===void 0){let r=e?.renderBefore??null;s._$litPart$=n=new j(t.insertBefore(K(),r),r,void 0,e??{})}return n._$AI(i),n};var Rt=globalThis,b=class extends _{constructor(){super(...arguments),this.renderOptions={host:this},this._$Do=void 0}createRenderRoot(){let t=super.createRenderRoot();return this.renderOptions.renderBefore??=t.firstChild,t}update(t){let e=this.render();this.hasUpdated||(this.renderOptions.isConnected=this.isConnected),super.update(t),this._$Do=re(e,this.renderRoot,this.renderOptions)}connectedCallback(){super.connectedCallback(),this._$Do?.setConnected(!0)}disconnectedCallback(){super.disconnectedCallback(),this._$Do?.setConnected(!1)}render(){return w}};b._$litElement$=!0,b.finalized=!0,Rt.litElementHydrateSupport?.({LitElement:b});var Be=Rt.litElementPolyfillSupport;Be?.({LitElement:b});(Rt.litElementVersions??=[]).push("4.2.2");function oe(i){return Object.entries(i.paths).filter(t=>t[1].get!==void 0).map(([t,{get:e}])=>Fe(i,t,e))}function Fe(i,t,e){let s=(e.parameters??[]).map(a=>Tt(i,a)),n=s.find(a=>a.name==="_format"),r=e.responses[200]?.content?.["application/x-ndjson"]?.["x-itemSchema"],o=r?Tt(i,r).properties:void 0;return{path:t,summary:e.summary??"",params:s.filter(a=>!a.name.startsWith("_")),controls:new Set(s.map(a=>a.name).filter(a=>a.startsWith("_"))),formats:(n?.schema.enum??[]).map(String),columns:Object.entries(o??{}).map(([a,c])=>({name:a,schema:Tt(i,c)})),needsToken:(e.security??[]).some(a=>Object.keys(a).length>0)}}function Tt(i,t){let e=t.$ref;if(!e)return t;let s=i;for(let n of e.slice(2).split("/"))s=s[n];return s}function Y(i){if(i.type==="array")return`list of ${i.items?Y(i.items):"anything"}`;let e=(i.anyOf?.map(Y)??[i.type??[]].flat()).filter(s=>s!=="null"&&!s.startsWith("one of"));return i.format&&e.length<=1?i.format:e.length?[...new Set(e)].join(" or "):i.enum?`one of ${i.enum.length}`:"any"}var Pt="rowstream.token",k=new URL("./",location.href.split("#")[0]),ae=new URL("../",k),E=()=>sessionStorage.getItem(Pt)??"";function le(i){i?sessionStorage.setItem(Pt,i):sessionStorage.removeItem(Pt)}function R(i,t={}){let e=new Headers(t.headers);return E()&&e.set("Authorization",`Bearer ${E()}`),fetch(i,{...t,headers:e,cache:"no-store",credentials:"omit"})}async function X(i){try{return await i.json()}catch{return{status:i.status,title:i.statusText||`status ${i.status}`}}}async function ce(i,t={}){let e=await R(new URL(i,k),t);if(!e.ok)throw await X(e);return await e.json()}var A={ATTRIBUTE:1,CHILD:2,PROPERTY:3,BOOLEAN_ATTRIBUTE:4,EVENT:5,ELEMENT:6},B=i=>(...t)=>({_$litDirective$:i,values:t}),T=class{constructor(t){}get _$AU(){return this._$AM._$AU}_$AT(t,e,s){this._$Ct=t,this._$AM=e,this._$Ci=s}_$AS(t,e){return this.update(t,e)}update(t,e){return this.render(...e)}};var{I:We}=ne,he=i=>i;var pe=i=>i.strings===void 0,de=()=>document.createComment(""),F=(i,t,e)=>{let s=i._$AA.parentNode,n=t===void 0?i._$AB:t._$AA;if(e===void 0){let r=s.insertBefore(de(),n),o=s.insertBefore(de(),n);e=new We(r,o,i,i.options)}else{let r=e._$AB.nextSibling,o=e._$AM,a=o!==i;if(a){let c;e._$AQ?.(i),e._$AM=i,e._$AP!==void 0&&(c=i._$AU)!==o._$AU&&e._$AP(c)}if(r!==n||a){let c=e._$AA;for(;c!==r;){let d=he(c).nextSibling;he(s).insertBefore(c,n),c=d}}}return e},P=(i,t,e=i)=>(i._$AI(t,e),i),Je={},ut=(i,t=Je)=>i._$AH=t,ue=i=>i._$AH,mt=i=>{i._$AR(),i._$AA.remove()};var Q=B(class extends T{constructor(i){if(super(i),i.type!==A.PROPERTY&&i.type!==A.ATTRIBUTE&&i.type!==A.BOOLEAN_ATTRIBUTE)throw Error("The `live` directive is not allowed on child or event bindings");if(!pe(i))throw Error("`live` bindings can only contain a single expression")}render(i){return i}update(i,[t]){if(t===w||t===p)return t;let e=i.element,s=i.name;if(i.type===A.PROPERTY){if(t===e[s])return w}else if(i.type===A.BOOLEAN_ATTRIBUTE){if(!!t===e.hasAttribute(s))return w}else if(i.type===A.ATTRIBUTE&&e.getAttribute(s)===t+"")return w;return ut(i),t}});var me=(i,t,e)=>{let s=new Map;for(let n=t;n<=e;n++)s.set(i[n],n);return s},fe=B(class extends T{constructor(i){if(super(i),i.type!==A.CHILD)throw Error("repeat() can only be used in text expressions")}dt(i,t,e){let s;e===void 0?e=t:t!==void 0&&(s=t);let n=[],r=[],o=0;for(let a of i)n[o]=s?s(a,o):o,r[o]=e(a,o),o++;return{values:r,keys:n}}render(i,t,e){return this.dt(i,t,e).values}update(i,[t,e,s]){let n=ue(i),{values:r,keys:o}=this.dt(t,e,s);if(!Array.isArray(n))return this.ut=o,r;let a=this.ut??=[],c=[],d,u,h=0,m=n.length-1,f=0,$=r.length-1;for(;h<=m&&f<=$;)if(n[h]===null)h++;else if(n[m]===null)m--;else if(a[h]===o[f])c[f]=P(n[h],r[f]),h++,f++;else if(a[m]===o[$])c[$]=P(n[m],r[$]),m--,$--;else if(a[h]===o[$])c[$]=P(n[h],r[$]),F(i,c[$+1],n[h]),h++,$--;else if(a[m]===o[f])c[f]=P(n[m],r[f]),F(i,n[h],n[m]),m--,f++;else if(d===void 0&&(d=me(o,f,$),u=me(a,h,m)),d.has(a[h]))if(d.has(a[m])){let v=u.get(o[f]),bt=v!==void 0?n[v]:null;if(bt===null){let Ht=F(i,n[h]);P(Ht,r[f]),c[f]=Ht}else c[f]=P(bt,r[f]),F(i,n[h],bt),n[v]=null;f++}else mt(n[m]),m--;else mt(n[h]),h++;for(;f<=$;){let v=F(i,c[$+1]);P(v,r[f]),c[f++]=v}for(;h<=m;){let v=n[h++];v!==null&&mt(v)}return this.ut=o,ut(i,c),w}});var Ve=new Intl.NumberFormat("en-US",{maximumFractionDigits:0}),ge=["B","KB","MB","GB","TB"],g=i=>Ve.format(i);function C(i){let t=0;for(;i>=1e3&&t<ge.length-1;)i/=1e3,t+=1;return`${i<10&&t>0?i.toFixed(1):i.toFixed(0)} ${ge[t]}`}function W(i){if(i<1)return"< 1 ms";if(i<1e3)return`${i.toFixed(0)} ms`;if(i<6e4)return`${(i/1e3).toFixed(1)} s`;let t=Math.floor(i/1e3);return t<3600?`${Math.floor(t/60)} min ${t%60} s`:`${Math.floor(t/3600)} h ${Math.floor(t%3600/60)} min`}var ft=class{constructor(){this.total=0;this.columns=new Map;this.#t=[];this.#e=0;this.#i=!1;this.#n=[];this.#s=0;this.#r=0}#t;#e;#i;#n;#s;#r;push(t){if(this.total+=1,this.total<=200&&this.#a(t),!this.#i){this.#t.push(t),this.#e+=t.length,this.#i=this.#t.length>=1e4||this.#e>=8388608;return}let e=this.#n.at(-1);(!e||e.lines.length>=500||e.text>8388608/16)&&(e={lines:[],text:0},this.#n.push(e)),e.lines.push(t),e.text+=t.length,this.#s+=1,this.#r+=t.length,(this.#s>=10500||this.#r>8388608)&&this.#o()}#o(){if(this.#n.length<2)return;let t=this.#n.shift();this.#s-=t.lines.length,this.#r-=t.text}#a(t){for(let[e,s]of tt(t)){let n=Math.max(this.columns.get(e)??e.length,Math.min(s.length,48));this.columns.set(e,n)}}get#l(){return this.total-this.#t.length-this.#s}get length(){return this.#t.length+(this.#l>0?1:0)+this.#s}get kept(){return this.#t.length+this.#s}at(t){if(t<this.#t.length)return{row:t+1,line:this.#t[t]};let e=t-this.#t.length,s=this.#l;if(s>0){if(e===0)return{from:this.#t.length+1,to:this.#t.length+s};e-=1}let n=this.#t.length+s+e+1;for(let r of this.#n){if(e<r.lines.length)return{row:n,line:r.lines[e]};e-=r.lines.length}}cutTo(t){for(;this.total>t;){this.total-=1;let e=this.#n.at(-1);if(!e){this.#e-=this.#t.pop()?.length??0,this.#i=!1;continue}let s=e.lines.pop()?.length??0;e.text-=s,this.#r-=s,this.#s-=1,e.lines.length===0&&this.#n.pop()}}};function tt(i){let t=Z(i,0);if(i[t]!=="{")return[["value",i.trim()]];let e=[];for(t=Z(i,t+1);i[t]==='"';){let s=$e(i,t),n=JSON.parse(i.slice(t,s)),r=Z(i,Z(i,s)+1),o=Ke(i,r);e.push([n,i.slice(r,o).trimEnd()]),t=Z(i,o+1)}return e}function Z(i,t){for(;i[t]===" "||i[t]==="	";)t+=1;return t}function $e(i,t){for(t+=1;t<i.length&&i[t]!=='"';t+=1)i[t]==="\\"&&(t+=1);return t+1}function Ke(i,t){let e=0;for(;t<i.length;){let s=i[t];if(s==='"'){t=$e(i,t);continue}if(e===0&&(s===","||s==="}"))return t;(s==="{"||s==="[")&&(e+=1),(s==="}"||s==="]")&&(e-=1),t+=1}return t}function we(i){let t=i[0];return t==='"'?{kind:"text",text:JSON.parse(i)}:t==="{"||t==="["?{kind:"json",text:i}:t==="n"?{kind:"null",text:"null"}:{kind:t==="t"||t==="f"?"boolean":"number",text:i}}var ye=["ndjson","sse","json-seq"],be=1e5,ze=4e3,Ge=30,gt=class{constructor(t,e){this.asked=t;this.changed=e;this.state="waiting";this.why="";this.status=0;this.bytes=0;this.rows=new ft;this.text="";this.#t="";this.started=performance.now();this.stream="";this.timing=[];this.limit=0;this.#e=new AbortController;this.#i="";this.#n=0;this.#s="";this.#o=!1}#t;#e;#i;#n;#s;#r;#o;get isRows(){return this.asked.format==="ndjson"}get isRunning(){return this.state==="waiting"||this.state==="running"}get elapsed(){return(this.ended??performance.now())-this.started}cancel(){this.#o=!0,this.#e.abort()}async start(){await this.#a(this.asked.url)}async resume(){if(!this.mark)return;this.rows.cutTo(this.mark.rows);let t=new URL(this.asked.url);t.searchParams.set("_after",this.mark.next),this.#n=this.rows.total,this.#s="",this.#r=void 0,this.#o=!1,this.#e=new AbortController,this.why="",this.problem=this.report=this.ended=void 0,this.state="waiting",this.changed(),await this.#a(t)}async#a(t){let e=setInterval(()=>{this.#p()},1e3);try{await this.#c(t)}catch(s){this.#l(s)}finally{clearInterval(e)}this.ended=performance.now(),this.changed(),await this.#p(this.state==="cancelled"?5:1),this.state==="unproved"&&this.#g(),this.changed()}#l(t){this.#o?this.state="cancelled":this.problem?this.state="failed":this.state==="waiting"?(this.state="failed",this.problem={title:"The server cannot be reached",detail:String(t)}):(this.state="truncated",this.why="the connection ended before the answer did")}async#c(t){let e={headers:this.asked.headers,signal:this.#e.signal},s=await R(t,e);if(this.status=s.status,!s.ok){this.problem=await X(s),this.state="failed";return}this.state="running",this.stream=s.headers.get("Rowstream-Stream")??"",this.#i=s.headers.get("Rowstream-Tag")??"",this.timing=Ye(s.headers.get("Server-Timing")),this.changed(),await this.#h(s),this.#f(s)}async#h(t){let e=t.body?.getReader();if(!e)return;let s=new TextDecoder,n=performance.now();for(;;){let{done:r,value:o}=await e.read();if(r)break;this.bytes+=o.byteLength,this.asked.format!=="arrow"&&this.#u(s.decode(o,{stream:!0})),this.limit>0&&await this.#$(o.byteLength),performance.now()-n>Ge&&(this.changed(),await new Promise(a=>setTimeout(a)),n=performance.now())}}#u(t){if(!this.isRows){this.text.length<be&&(this.text+=t.slice(0,be-this.text.length)),this.#t=(this.#t+t).slice(-ze),this.changed();return}let e=(this.#s+t).split(`
`);this.#s=e.pop()??"";for(let s of e)s&&this.#d(s);this.changed()}#d(t){if(this.#i&&t.startsWith(`{"$rowstream":"${this.#i}",`)){this.#m(JSON.parse(t));return}this.firstRow??=performance.now()-this.started,this.rows.push(t)}#m({end:t,mark:e,error:s}){let n=t?.next??e?.next;n&&(this.mark={next:n,rows:this.rows.total}),t&&(this.#r=t),s&&(this.problem=s)}#f(t){let e=`{"$rowstream":"${this.#i}","end":`;if(this.problem)this.state="failed";else if(this.#r||this.#i&&this.#t.includes(e)){let s=this.rows.total-this.#n,n=!this.#r||this.#r.rows===s;this.state=n?"complete":"truncated",n||(this.why=`${s} rows came, and the server sent ${this.#r?.rows}`)}else if(this.#i)this.state="truncated",this.why="it ended without the record of its end";else{let s=t.headers.has("Content-Length")||t.status===204;this.state=s?"complete":"unproved"}}#g(){this.report&&(this.report.state!=="complete"?(this.state="truncated",this.why=`the server says: ${this.report.state}`,this.problem=this.report.error):this.report.bytes===this.bytes&&(this.state="complete"))}async#p(t=0){for(let e=Math.max(t,1);this.stream&&e>0;e-=1){try{let s=await R(new URL(`streams/${this.stream}`,k));if(!s.ok)return;this.report=await s.json()}catch{return}if(this.changed(),t===0||this.report.state!=="running")return;await new Promise(s=>setTimeout(s,200))}}async#$(t){this.changed();for(let e=performance.now();this.limit>0&&!this.#e.signal.aborted;){let s=t/this.limit*1e3-(performance.now()-e);if(s<=0)return;await new Promise(n=>setTimeout(n,Math.min(s,200)))}}};function Ye(i){return(i??"").split(",").flatMap(t=>{let e=/^\s*([\w-]+);dur=([\d.]+)/.exec(t);return e?[[e[1],Number(e[2])]]:[]})}function _e(i,t,e,s){let n=e==="ndjson"&&i.searchParams.has("_end"),r=s?{Authorization:"Bearer $TOKEN",...t}:t;return[{name:"curl",text:Xe(i,r,e)},{name:"JavaScript",text:n?Ze(i,r):Qe(i,r)},{name:"Python",text:n?es(i,r):ts(i,r)}]}var ve=i=>`'${i.replaceAll("'","'\\''")}'`;function Xe(i,t,e){let s=Object.entries(t).map(([r,o])=>o.includes("$TOKEN")?`  -H "${r}: ${o}"`:`  -H ${ve(`${r}: ${o}`)}`),n=e==="arrow"?["  -o rows.arrows"]:[];return["curl -fsS --compressed",...s,...n,`  ${ve(i.href)}`].join(` \\
`)}function Se(i){return Object.keys(i).length===0?"":`, { headers: { ${Object.entries(i).map(([e,s])=>s.includes("$TOKEN")?`${JSON.stringify(e)}: \`${s.replace("$TOKEN","${token}")}\``:`${JSON.stringify(e)}: ${JSON.stringify(s)}`).join(", ")} } }`}function Qe(i,t){return`const response = await fetch(${JSON.stringify(i.href)}${Se(t)});
if (!response.ok) throw new Error((await response.json()).detail);
// It throws where the answer is cut.
const text = await response.text();`}function Ze(i,t){return`const response = await fetch(${JSON.stringify(i.href)}${Se(t)});
if (!response.ok) throw new Error((await response.json()).detail);
const record = \`{"$rowstream":"\${response.headers.get("Rowstream-Tag")}",\`;
let rest = "", end;
for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + text).split("\\n");
  rest = lines.pop();
  for (const line of lines.filter(Boolean)) {
    if (line.startsWith(record)) end = JSON.parse(line).end ?? end;
    else console.log(JSON.parse(line)); // a row
  }
}
if (!end) throw new Error("it is not whole");`}function Ee(i){return Object.keys(i).length===0?"":`, headers={${Object.entries(i).map(([e,s])=>s.includes("$TOKEN")?`${JSON.stringify(e)}: f"${s.replace("$TOKEN","{token}")}"`:`${JSON.stringify(e)}: ${JSON.stringify(s)}`).join(", ")}}`}function ts(i,t){return`import requests

response = requests.get(${JSON.stringify(i.href)}${Ee(t)})
response.raise_for_status()
body = response.content  # it raises where the answer is cut`}function es(i,t){return`import json, requests

end = None
with requests.get(${JSON.stringify(i.href)}${Ee(t)}, stream=True) as response:
    response.raise_for_status()
    record = '{"$rowstream":"%s",' % response.headers["Rowstream-Tag"]
    for line in response.iter_lines():
        text = line.decode()
        if text.startswith(record):
            end = json.loads(text).get("end", end)
        elif text:
            print(json.loads(text))  # a row
if end is None:
    raise EOFError("it is not whole")`}var Ct=class extends T{render(t){return w}update(t,[e]){return Object.assign(t.element.style,e),w}},x=B(Ct);var H=29,Ae=8,xe=7.9,ke=26,Mt=class extends b{static{this.properties={rows:{attribute:!1},total:{attribute:!1},follows:{attribute:!1},picked:{state:!0}}}#t=new ResizeObserver(()=>this.requestUpdate());constructor(){super(),this.picked=-1}createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.#t.observe(this)}disconnectedCallback(){super.disconnectedCallback(),this.#t.disconnect()}get#e(){return this.querySelector(".scroller")}updated(){let t=this.#e;this.follows&&t&&(t.scrollTop=t.scrollHeight)}render(){let t=[...this.rows.columns],e=this.#e,[s,n]=[e?.scrollTop??0,e?.clientHeight||600],r=Math.max(0,Math.min(Math.floor(s/H),this.rows.length)-Ae),o=Math.min(this.rows.length,Math.ceil((s+n)/H)+Ae),a=[];for(let h=r;h<o;h+=1){let m=this.rows.at(h);m&&a.push(this.#i(h,m,t))}let c=Math.max(5,String(this.rows.total).length+2)*xe+ke,d=t.map(([,h])=>Math.round(h*xe+ke)),u=d.reduce((h,m)=>h+m,c);return l`<div
      class="scroller"
      tabindex="0"
      role="region"
      aria-label="Rows. Arrow keys choose a row, Enter shows it."
      @scroll=${()=>this.requestUpdate()}
      @keydown=${this.#r}
    >
      <div class="sizer" ${x({height:`${(this.rows.length+1)*H}px`})}>
        <table
          aria-rowcount=${this.rows.total+1}
          ${x({top:`${r*H}px`,minWidth:`${u}px`})}
        >
          <colgroup>
            <col ${x({width:`${c}px`})} />
            ${d.map(h=>l`<col ${x({width:`${h}px`})} />`)}
          </colgroup>
          <thead>
            <tr aria-rowindex="1">
              <th scope="col" class="number">#</th>
              ${t.map(([h])=>l`<th scope="col" title=${h}>${h}</th>`)}
            </tr>
          </thead>
          <tbody>
            ${a}
          </tbody>
        </table>
      </div>
    </div>`}#i(t,e,s){if("from"in e){let r=`rows ${g(e.from)} to ${g(e.to)} came by and are not kept`;return l`<tr class="gap"><td colspan=${s.length+1}><span>${r}</span></td></tr>`}let n=new Map(tt(e.line));return l`<tr
      class=${t===this.picked?"picked":""}
      aria-rowindex=${e.row+1}
      @click=${()=>this.#n(t)}
      @dblclick=${()=>this.#s(t)}
    >
      <th scope="row" class="number">${g(e.row)}</th>
      ${s.map(([r])=>ss(n.get(r)))}
    </tr>`}#n(t){this.picked=Math.max(0,Math.min(t,this.rows.length-1));let e=this.#e;if(!e)return;let s=this.picked*H,n=e.scrollTop+e.clientHeight-3*H;s<e.scrollTop?e.scrollTop=s:s>n&&(e.scrollTop+=s-n)}#s(t){let e=this.rows.at(t);!e||"from"in e||this.dispatchEvent(new CustomEvent("open-row",{detail:e,bubbles:!0}))}#r(t){let e=Math.floor((this.#e?.clientHeight??0)/H)-2,n={ArrowDown:1,ArrowUp:-1,PageDown:e,PageUp:-e,Home:-1/0,End:1/0}[t.key];if(t.key==="Enter")this.#s(this.picked);else if(n!==void 0)this.#n(Math.max(-1,this.picked)+n);else return;t.preventDefault()}};function ss(i){if(i===void 0)return l`<td></td>`;let{kind:t,text:e}=we(i),s=e.length>300?`${e.slice(0,300)}…`:e;return l`<td class=${t} title=${e.length>30?s:p}>${s}</td>`}customElements.define("rs-table",Mt);var st=[0,4e6,1e6,25e4,5e4,1e4],Re=["pool","database","encode","client"],Te={waiting:"Waiting for the first row",running:"Streaming",complete:"Complete",unproved:"Ended, not proved whole",truncated:"Truncated",failed:"Failed",cancelled:"Cancelled"},is={ndjson:"NDJSON (table)",json:"JSON",csv:"CSV",sse:"Server-sent events","json-seq":"JSON text sequence",arrow:"Arrow"},Ot=class extends b{static{this.properties={endpoint:{attribute:!1},query:{attribute:!1},isFollowing:{state:!0},isPaused:{state:!0},speed:{state:!0},language:{state:!0},said:{state:!0}}}#t=!1;#e=0;constructor(){super(),this.isFollowing=this.isPaused=!1,this.speed=this.language=0,this.said=""}createRenderRoot(){return this}willUpdate(t){let e=t.get("endpoint");e&&e.path!==this.endpoint.path&&this.#i()}disconnectedCallback(){super.disconnectedCallback(),this.#i()}#i(){this.run?.cancel(),this.run=void 0,this.isFollowing=this.isPaused=!1,this.said=""}#n=()=>{this.#t||(this.#t=!0,requestAnimationFrame(()=>{this.#t=!1,this.requestUpdate()}))};get#s(){let{formats:t}=this.endpoint,e=this.query.get("_format")??"";return t.includes(e)?e:t.includes("ndjson")?"ndjson":t[0]??""}get#r(){return this.endpoint.controls.has("_follow")&&this.query.get("_follow")==="1"}#o(){let t=this.endpoint.path,e=new URLSearchParams,s={};for(let o of this.endpoint.params){let a=this.query.get(o.name)??"";if(o.in==="path")t=t.replace(`{${o.name}}`,encodeURIComponent(a));else{if(a==="")continue;if(o.in==="header")s[o.name]=a;else for(let c of ns(o,a))e.append(o.name,c)}}let n=this.#s;n&&e.set("_format",n),ye.includes(n)&&this.endpoint.controls.has("_end")&&e.set("_end","1"),this.#r&&e.set("_follow","1");let r=new URL(t.replace(/^\//,"./"),ae);return r.search=e.toString(),{url:r,headers:s}}#a(t,e){let s=new URLSearchParams(this.query);e===""?s.delete(t):s.set(t,e),this.query=s;let n=s.toString();history.replaceState(null,"",`#/endpoints${this.endpoint.path}${n&&`?${n}`}`)}async#l(t){t?.preventDefault(),this.run?.cancel(),this.isPaused=!1;let{url:e,headers:s}=this.#o();this.run=new gt({url:e,headers:s,format:this.#s},this.#n),this.isFollowing=this.#r,await this.#c(this.run,this.run.start())}async#c(t,e){t.limit=st[this.speed]??0,this.said="Running",this.requestUpdate(),await e,t===this.run&&(this.said=`${Te[t.state]}, ${g(t.rows.total)} rows. ${t.problem?.detail??t.why}`)}#h(t){this.speed=Number(t.target.value),this.run&&(this.run.limit=st[this.speed]??0)}#u(){this.isPaused=!this.isPaused,this.#e=this.run?.rows.total??0}async#d(t,e){await navigator.clipboard.writeText(e),this.said=`${t} copied`}render(){let{path:t,summary:e,needsToken:s}=this.endpoint;return l`<article aria-labelledby="title">
      <a class="back" href="#/endpoints">← All endpoints</a>
      <header class="title">
        <h1 id="title"><span class="method">GET</span> ${rs(t)}</h1>
        <button class="quiet" @click=${()=>this.#d("Link",location.href)}>Copy link</button>
      </header>
      ${e?l`<p class="summary">${e}</p>`:p}
      ${s&&!E()?l`<p class="note">It needs a token, which you have not entered.</p>`:p}
      ${this.#m()} ${this.run?this.#g(this.run):p} ${this.#b()} ${this.#y()}
      <p class="spoken" role="status" aria-live="polite">${this.said}</p>
    </article>`}#m(){let{params:t,formats:e,controls:s}=this.endpoint,n=this.run?.isRunning??!1;return l`<form class="card" @submit=${this.#l}>
      ${t.length?l`<div class="fields">${fe(t,r=>r.name,r=>this.#f(r))}</div>`:l`<p class="quiet">It takes no parameters.</p>`}
      <div class="actions">
        ${e.length>1?l`<label class="inline"
              ><span>Format</span>
              <select @change=${r=>this.#a("_format",r.target.value)}>
                ${e.map(r=>l`<option value=${r} ?selected=${r===this.#s}>
                    ${is[r]??r}
                  </option>`)}
              </select></label
            >`:p}
        ${s.has("_follow")?l`<label class="inline check"
              ><input
                type="checkbox"
                .checked=${Q(this.#r)}
                @change=${r=>this.#a("_follow",r.target.checked?"1":"")}
              /><span>Live tail</span></label
            >`:p}
        <span class="grow"></span>
        ${n?l`<button type="button" class="stop" @click=${()=>this.run?.cancel()}>Cancel</button>`:l`<button type="submit" class="run">Run</button>`}
        <button type="button" @click=${this.#v} title="Save all of it to a file">Download</button>
      </div>
    </form>`}#f(t){let{name:e,schema:s,required:n,description:r}=t,o=`param-${e}`,a=this.query.get(e)??"",c=s.default===void 0||s.default===null?"":String(s.default),d=m=>this.#a(e,m.target.value),u=s.enum??s.items?.enum??(s.type==="boolean"?[!0,!1]:void 0),h=u&&s.type!=="array";return l`<div class="field">
      <label for=${o}
        >${e}${n?l`<span class="required" title="required">*</span>`:p}
        <span class="type">${Y(s)}</span></label
      >
      ${h?l`<select id=${o} ?required=${n} aria-describedby="${o}-more" @change=${d}>
            <option value="" ?selected=${a===""}>${c||(n?"choose":"any")}</option>
            ${u.map(m=>l`<option value=${String(m)} ?selected=${a===String(m)}>${m}</option>`)}
          </select>`:l`<input
            id=${o}
            .value=${Q(a)}
            ?required=${n}
            placeholder=${c||os(t)}
            inputmode=${s.type==="integer"?"numeric":"text"}
            autocomplete="off"
            spellcheck="false"
            aria-describedby="${o}-more"
            @input=${d}
          />`}
      <small id="${o}-more">${as(t,r)}</small>
    </div>`}#g(t){let e=t.elapsed,s=e>0?t.rows.total/e*1e3:0;return l`<section class="card result" aria-label="Result">
      <div class="progress">
        <span class="state ${t.state}" data-state=${t.state}>${Te[t.state]}</span>
        ${t.isRows?et("rows",g(t.rows.total)):p}
        ${t.isRows?et("rows/s",g(s)):p} ${et("received",C(t.bytes))}
        ${et("time",W(e))}
        ${t.firstRow===void 0?p:et("first row",W(t.firstRow))}
        <span class="grow"></span>
        ${this.#p(t)}
      </div>
      ${t.why?l`<p class="warning" role="alert">This answer is not whole: ${t.why}.</p>`:p}
      ${t.state==="unproved"?l`<p class="note">
            Nothing tells whether this was the end of it: the answer was compressed on its way, and its format has no
            record at the end. NDJSON has one.
          </p>`:p}
      ${t.problem?ls(t.problem):p} ${cs(t)} ${this.#$(t)}
    </section>`}#p(t){let e=t.mark&&!t.isRunning&&t.state!=="complete";return l`${t.isRunning&&t.isRows?l`<button class="quiet" aria-pressed=${this.isPaused} @click=${this.#u}>
            ${this.isPaused?`Go on (${g(t.rows.total-this.#e)} new)`:"Pause"}
          </button>`:p}
      ${e?l`<button class="quiet" @click=${()=>this.#c(t,t.resume())}>
            Resume after row ${g(t.mark.rows)}
          </button>`:p}
      ${t.isRows?l`<label class="inline check"
            ><input
              type="checkbox"
              .checked=${Q(this.isFollowing)}
              @change=${s=>this.isFollowing=s.target.checked}
            /><span>Keep the last row in sight</span></label
          >`:p}
      <label class="inline" title="Be a slow client: the server and the database wait for you"
        ><span>Read at</span
        ><input
          type="range"
          min="0"
          max=${st.length-1}
          .value=${Q(String(this.speed))}
          aria-valuetext=${Pe(this.speed)}
          @input=${this.#h}
        /><output>${Pe(this.speed)}</output></label
      >`}#$(t){if(t.isRows){if(t.rows.total===0)return t.state==="complete"?l`<p class="empty">There are no rows.</p>`:p;let s=this.isPaused?this.#e:t.rows.total;return l`<rs-table
        .rows=${t.rows}
        .total=${s}
        .follows=${this.isFollowing&&!this.isPaused}
        @open-row=${this.#w}
      ></rs-table>`}if(t.asked.format==="arrow")return l`<p class="empty">Arrow is binary: download it to read it.</p>`;if(!t.text)return p;let e=t.bytes<=t.text.length*3&&t.text.length<1e5;return l`<pre class="text" tabindex="0" role="region" aria-label="The answer">${t.text}</pre>
      ${e?p:l`<p class="quiet">These are the first letters of ${C(t.bytes)}.</p>`}`}#w(t){let{row:e,line:s}=t.detail,n=this.querySelector("dialog")??document.createElement("dialog");n.replaceChildren(),n.ariaLabel=`Row ${e}`;let r=document.createElement("h2");r.textContent=`Row ${g(e)}`;let o=document.createElement("dl");for(let[c,d]of tt(s)){let[u,h]=[document.createElement("dt"),document.createElement("dd")];[u.textContent,h.textContent]=[c,d],o.append(u,h)}let a=document.createElement("button");a.textContent="Close",a.onclick=()=>n.close(),n.append(r,o,a),this.append(n),n.showModal()}#b(){let{url:t,headers:e}=this.#o(),s=_e(t,e,this.#s,E()!==""),{name:n,text:r}=s[this.language];return l`<section class="card code" aria-label="The same request elsewhere">
      <div class="tabs" role="group" aria-label="Language">
        ${s.map(({name:o},a)=>l`<button
            class="tab"
            aria-pressed=${a===this.language}
            @click=${()=>this.language=a}
          >
            ${o}
          </button>`)}
        <span class="grow"></span>
        <button class="quiet" @click=${()=>this.#d(n,r)}>Copy</button>
      </div>
      <pre tabindex="0" role="region" aria-label=${n}>${r}</pre>
    </section>`}#y(){let{columns:t}=this.endpoint;return t.length===0?p:l`<details class="card">
      <summary>${t.length} columns</summary>
      <dl class="columns">
        ${t.map(({name:e,schema:s})=>l`<dt>${e}</dt><dd>${Y(s)}</dd>`)}
      </dl>
    </details>`}#v=async()=>{if(!this.querySelector("form")?.reportValidity())return;let{url:e,headers:s}=this.#o();e.searchParams.delete("_end"),e.searchParams.delete("_follow");let n=this.endpoint.path.replaceAll(/[^\w-]+/g,"-").replaceAll(/^-+|-+$/g,"")||"rows";this.endpoint.controls.has("_download")&&e.searchParams.set("_download",n);let r=document.createElement("a");if(r.download=`${n}.${this.#s||"txt"}`,r.href=e.href,E()||Object.keys(s).length>0){this.said="Downloading";try{let o=await R(e,{headers:s});if(!o.ok)throw new Error(`status ${o.status}`);r.href=URL.createObjectURL(await o.blob())}catch(o){this.said=`The download failed, nothing is saved: ${String(o)}`;return}}r.click(),this.said=`${r.download} is downloaded by the browser`}};function ns(i,t){return i.schema.type==="array"?t.split(",").map(e=>e.trim()):[t]}function rs(i){return i.split(/(\{[^}]*\})/).map(t=>t.startsWith("{")?l`<em>${t}</em>`:t)}function os({schema:i,required:t}){let e={date:"2026-12-31","date-time":"2026-12-31T12:00:00Z",uuid:"00000000-0000-0000-0000-000000000000",duration:"PT10S"};return i.type==="array"?"1,2,3":e[i.format??""]??(t?"":"not given")}function as({schema:i,in:t,name:e},s=""){let n=[i.minimum===void 0?"":`from ${i.minimum}`,i.maximum===void 0?"":`to ${i.maximum}`],r=t==="query"?"":t==="path"?"in the path":`header ${e}`;return[s,n.filter(Boolean).join(" "),r].filter(Boolean).join(" · ")}function et(i,t){return l`<span class="fact"><b>${t}</b> <span>${i}</span></span>`}var Pe=i=>st[i]?`${C(st[i])}/s`:"full speed";function ls({title:i,status:t,code:e,detail:s,hint:n,sqlstate:r}){return l`<div class="problem" role="alert">
    <h2>${t?l`<span>${t}</span>`:p} ${i??e??"It failed"}</h2>
    ${s?l`<p>${s}</p>`:p} ${n?l`<p class="hint">${n}</p>`:p}
    <p class="quiet">
      ${e?l`<a href=${new URL(`errors/${e}`,k).href} target="_blank" rel="noreferrer">What ${e} means</a>`:p}
      ${r?l` SQLSTATE ${r}`:p}
    </p>
  </div>`}function cs(i){let t=Object.entries(i.report?.ms??{}).filter(([r])=>Re.includes(r)),e=t.length?t:i.timing.filter(([r])=>Re.includes(r)),s=e.reduce((r,[,o])=>r+o,0),n=i.report&&i.isRunning?`The server has sent ${C(i.report.bytes)}.`:"";return s===0?n?l`<p class="quiet phases">${n}</p>`:p:l`<div class="phases">
    <div class="bar" aria-hidden="true">
      ${e.map(([r,o])=>l`<i class=${r} ${x({flexGrow:String(o/s)})}></i>`)}
    </div>
    <p class="quiet">
      ${t.length?"Where the server's time went:":"Until the first row:"}
      ${e.map(([r,o])=>l`<span class="key ${r}">${r} ${W(o)}</span> `)} ${n}
    </p>
  </div>`}customElements.define("rs-endpoint",Ot);var hs=2e3,ds=450,ps=5,$t=["pool","database","encode","client"],y=[],us=/^(rowstream_(requests|rows|sent_bytes|phase_seconds)_total|rowstream_(streams_running|permits|permits_max|pool_(used|max|waiting|idle)|connections)|process_(resident_memory_bytes|cpu_seconds_total))(?:\{(.*)\})? (\S+)$/;function ms(i){let t=new Map;for(let e of i.split(`
`)){let s=us.exec(e);if(!s)continue;let[n,r,o]=[s[1],s.at(-2)??"",Number(s.at(-1))],a=t.get(n)??new Map;t.set(n,a.set(r,o))}return t}var D=(i,t)=>new RegExp(`(?:^|,)${t}="((?:[^"\\\\]|\\\\.)*)"`).exec(i)?.[1]??"";function I(i,t,e=()=>!0){let s=0;for(let[n,r]of i.metrics.get(t)??[])e(n)&&(s+=r);return s}function wt(i,t){let[e,s]=[y[i],y[Math.max(0,i-ps)]],n=(e.at-s.at)/1e3;return n>0?Math.max(0,t(e)-t(s))/n:0}var Ut=class extends b{static{this.properties={failure:{state:!0}}}#t=0;createRenderRoot(){return this}connectedCallback(){super.connectedCallback(),this.#e(),this.#t=setInterval(()=>{this.#e()},hs)}disconnectedCallback(){super.disconnectedCallback(),clearInterval(this.#t)}async#e(){try{let t=await R(new URL("metrics",k),{headers:{Accept:"text/plain"}});if(!t.ok){this.failure=await X(t);return}y.push({at:Date.now(),metrics:ms(await t.text())}),y.length>ds&&y.shift(),this.failure=void 0}catch(t){this.failure={title:"The server cannot be reached",detail:String(t)}}this.requestUpdate()}render(){return l`<article aria-labelledby="title">
      <header class="title"><h1 id="title">Live</h1></header>
      <p class="summary">Since you opened this view, up to 15 minutes; asked for every two seconds.</p>
      ${this.failure?this.#i(this.failure):p} ${y.length?this.#n():p}
    </article>`}#i({status:t,title:e,detail:s}){let n=t===404?"With `admin_listen` the metrics are at that port alone, and so is this view.":t===401||t===403?"Enter a token that [admin] names in rowstream.toml.":"";return l`<div class="card problem" role="alert">
      <h2>${t?l`<span>${t}</span>`:p} ${e}</h2>
      <p>${s}</p>
      <p class="hint">${n}</p>
    </div>`}#n(){let t=y.at(-1),e=d=>D(d,"endpoint")!=="/_rowstream/",s=d=>e(d)&&D(d,"outcome")==="complete",n=d=>e(d)&&D(d,"outcome")!=="complete",r=(d,u=e)=>h=>wt(h,m=>I(m,d,u)),o=d=>u=>I(y[u],d),a=d=>wt(d,u=>I(u,"process_cpu_seconds_total"))*100,c=I(t,"rowstream_permits_max");return l`<div class="charts">
        ${M("Streams in flight",o("rowstream_streams_running"),g,`of ${g(c)} at most`)}
        ${M("Rows per second",r("rowstream_rows_total"),g)}
        ${M("Sent per second",r("rowstream_sent_bytes_total"),C)}
        ${M("Requests per second",r("rowstream_requests_total",s),Lt,"that were complete")}
        ${M("Other ends per second",r("rowstream_requests_total",n),Lt,"not complete")}
        ${M("Memory",o("process_resident_memory_bytes"),C,"resident")}
        ${M("Processor",a,d=>`${d.toFixed(0)} %`,"of one core")}
        ${[...(t.metrics.get("rowstream_pool_used")??new Map).keys()].map(fs)}
      </div>
      ${gs(t)}`}};function fs(i){let t=(n,r=y.length-1)=>y[r].metrics.get(n)?.get(i)??0,e=t("rowstream_pool_waiting"),s=`of ${t("rowstream_pool_max")}, ${e} waiting`;return M(`Pool of ${D(i,"source")}`,n=>t("rowstream_pool_used",n),g,s)}var Lt=i=>i<10?i.toFixed(1):g(i);function M(i,t,e,s=""){let n=y.map((d,u)=>t(u)),r=Math.max(...n,1e-9),o=d=>200-(y.length-1-d)*(200/Math.max(60,y.length-1)),a=n.map((d,u)=>`${o(u).toFixed(1)},${(46-d/r*42).toFixed(1)}`),c=`${o(0).toFixed(1)},48 ${a.join(" ")} 200,48`;return l`<section class="card chart" aria-label=${i}>
    <h2>${i}</h2>
    <p><b>${e(n.at(-1)??0)}</b> <span class="quiet">${s}</span></p>
    <svg viewBox="0 0 200 48" preserveAspectRatio="none" role="img" aria-label="at most ${e(r)}">
      ${ee`<polygon points=${c}></polygon><polyline points=${a.join(" ")}></polyline>`}
    </svg>
    <p class="quiet">at most ${e(Math.max(...n))}</p>
  </section>`}function gs(i){let t=[...(i.metrics.get("rowstream_streams_running")??new Map).keys()],e=y.length-1,s=t.map(n=>{let r=D(n,"endpoint"),o=d=>D(d,"endpoint")===r,a=d=>wt(e,u=>I(u,d,o)),c=$t.map(d=>wt(e,u=>I(u,"rowstream_phase_seconds_total",h=>o(h)&&D(h,"phase")===d)));return{path:r,running:I(i,"rowstream_streams_running",o),of:a,phases:c}});return l`<section class="card live" aria-label="Endpoints now" tabindex="0">
    <table>
      <thead>
        <tr>
          <th scope="col">Endpoint</th>
          <th scope="col" class="number">Streams</th>
          <th scope="col" class="number">Requests/s</th>
          <th scope="col" class="number">Rows/s</th>
          <th scope="col">Where the time goes</th>
        </tr>
      </thead>
      <tbody>
        ${s.map(({path:n,running:r,of:o,phases:a})=>l`<tr>
            <th scope="row"><a href="#/endpoints${n}">${n}</a></th>
            <td class="number">${g(r)}</td>
            <td class="number">${Lt(o("rowstream_requests_total"))}</td>
            <td class="number">${g(o("rowstream_rows_total"))}</td>
            <td>${$s(a)}</td>
          </tr>`)}
      </tbody>
    </table>
    <p class="quiet">${$t.map(n=>l`<span class="key ${n}">${n}</span>`)}</p>
  </section>`}function $s(i){let t=i.reduce((s,n)=>s+n,0);if(t===0)return p;let e=i.map((s,n)=>`${$t[n]} ${W(s*1e3)}`).join(", ");return l`<div class="bar" role="img" aria-label="per second: ${e}">
    ${i.map((s,n)=>l`<i class=${$t[n]} ${x({flexGrow:String(s/t)})}></i>`)}
  </div>`}customElements.define("rs-live",Ut);var Ce="rowstream.theme",Nt=["auto","light","dark"],qt=class extends b{constructor(){super();this.query=new URLSearchParams;this.search=this.path="",this.theme=localStorage.getItem(Ce)??"auto",this.#t(),this.#s(),addEventListener("hashchange",()=>this.#t()),this.#e()}static{this.properties={endpoints:{state:!0},failure:{state:!0},search:{state:!0},path:{state:!0},theme:{state:!0}}}createRenderRoot(){return this}#t(){let[e="",s=""]=location.hash.slice(1).split(/\?(.*)/s);this.query=new URLSearchParams(s),this.path=ws(e)||"/endpoints",this.requestUpdate()}async#e(){try{this.endpoints=oe(await ce("openapi.json")),this.failure=void 0}catch(e){let s=!(e instanceof Error);this.failure=s?e:{title:"The server cannot be reached",detail:e.message}}}get#i(){return this.endpoints?.find(({path:e})=>this.path===`/endpoints${e}`)}#n(){this.theme=Nt[(Nt.indexOf(this.theme)+1)%Nt.length],localStorage.setItem(Ce,this.theme),this.#s()}#s(){document.documentElement.dataset.theme=this.theme}updated(){let e=this.#i;document.title=e?`${e.path} · Rowstream`:"Rowstream console"}render(){let e=this.#i;return l`<a class="skip" href="#main" @click=${this.#h}>Skip the navigation</a>
      <header class="top">
        <a class="brand" href="#/endpoints">${bs} Rowstream</a>
        <a class="tab" href="#/endpoints" aria-current=${this.path==="/live"?p:"page"}>Endpoints</a>
        <a class="tab" href="#/live" aria-current=${this.path==="/live"?"page":p}>Live</a>
        <span class="grow"></span>
        <button class="quiet" @click=${this.#n}>Theme: ${this.theme}</button>
        <button class="quiet" @click=${this.#a}>${E()?"Token ✓":"Token"}</button>
      </header>
      ${this.path==="/live"?l`<div class="page wide"><main id="main" tabindex="-1"><rs-live></rs-live></main></div>`:l`<div class="page ${e?"has-chosen":""}">
            <nav aria-label="Endpoints">${this.#r()}</nav>
            <main id="main" tabindex="-1">
              ${e?l`<rs-endpoint .endpoint=${e} .query=${this.query}></rs-endpoint>`:this.#o()}
            </main>
          </div>`}
      ${this.#l()}`}#r(){if(this.failure)return l`<div class="problem" role="alert">
        <h2>${this.failure.title}</h2>
        <p>${this.failure.detail}</p>
        <button @click=${()=>this.#e()}>Try again</button>
      </div>`;let e=this.search.toLowerCase().split(/\s+/),s=(this.endpoints??[]).filter(({path:n,summary:r})=>e.every(o=>`${n} ${r}`.toLowerCase().includes(o)));return l`<input
        type="search"
        placeholder="Search endpoints"
        aria-label="Search endpoints"
        .value=${this.search}
        @input=${n=>this.search=n.target.value}
      />
      <ul>
        ${s.map(({path:n,summary:r,needsToken:o})=>l`<li>
            <a href="#/endpoints${n}" aria-current=${this.path===`/endpoints${n}`?"page":p}>
              <code>${n}</code>${o?l`<span class="lock" title="needs a token">token</span>`:p}
              ${r?l`<small>${r}</small>`:p}
            </a>
          </li>`)}
      </ul>
      ${this.endpoints&&s.length===0?l`<p class="quiet">${this.search?"None is called so.":"There is none that you may call."}</p>`:p}`}#o(){let e=this.endpoints&&this.path!=="/endpoints";return l`<div class="welcome">
      <h1>${e?"There is no such endpoint":"SQL as streaming HTTP endpoints"}</h1>
      <p>
        ${e?"It may need a token, or it is gone. Choose another one.":"Choose an endpoint, fill in its parameters and run it: rows are shown as they come, in constant memory."}
      </p>
    </div>`}#a(){this.querySelector("dialog.token").showModal()}#l(){return l`<dialog class="token" aria-labelledby="token-title">
      <form method="dialog" @submit=${this.#c}>
        <h2 id="token-title">Your token</h2>
        <p>It is sent as a bearer token, and kept by this tab until you close it.</p>
        <label for="token">Token</label>
        <input id="token" type="password" autocomplete="off" .value=${E()} />
        <div class="actions">
          <span class="grow"></span>
          <button type="button" @click=${()=>this.querySelector("dialog.token").close()}>
            Cancel
          </button>
          <button class="run">Use it</button>
        </div>
      </form>
    </dialog>`}#c(e){e.preventDefault(),le(this.querySelector("#token").value.trim()),this.querySelector("dialog.token").close(),this.#e(),this.requestUpdate()}#h(e){e.preventDefault(),this.querySelector("main").focus()}};function ws(i){try{return decodeURI(i)}catch{return i}}var bs=l`<svg viewBox="0 0 24 24" width="22" height="22" aria-hidden="true">
  <rect x="2" y="4" width="20" height="3.4" rx="1.7" />
  <rect x="6" y="10.3" width="16" height="3.4" rx="1.7" opacity=".75" />
  <rect x="10" y="16.6" width="12" height="3.4" rx="1.7" opacity=".5" />
</svg>`;customElements.define("rs-app",qt);
/*! Bundled license information:

@lit/reactive-element/css-tag.js:
  (**
   * @license
   * Copyright 2019 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

@lit/reactive-element/reactive-element.js:
lit-html/lit-html.js:
lit-element/lit-element.js:
lit-html/directive.js:
lit-html/directives/repeat.js:
  (**
   * @license
   * Copyright 2017 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/is-server.js:
  (**
   * @license
   * Copyright 2022 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)

lit-html/directive-helpers.js:
lit-html/directives/live.js:
  (**
   * @license
   * Copyright 2020 Google LLC
   * SPDX-License-Identifier: BSD-3-Clause
   *)
*/
