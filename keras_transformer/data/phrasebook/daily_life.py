"""Carriers about shops, offices, doctors, schools and leisure."""

TEXT = """\
The blue jacket costs {euros1} and the shoes cost {euros2}.
Die blaue Jacke kostet {euros1} und die Schuhe kosten {euros2}.
La veste bleue coûte {euros1} et les chaussures coûtent {euros2}.

Until {day}, you save {percent} on all orders over {amount}.
Bis zum {day} sparen Sie {percent} bei allen Bestellungen über {amount}.
Jusqu'au {day}, vous économisez {percent} sur toutes les commandes de plus de {amount}.

Order {order}: delivery on {medium} between {time1} and {time2}.
Bestellung {order}: Lieferung am {medium} zwischen {time1} und {time2} Uhr.
Commande {order} : livraison le {medium} entre {time1} et {time2}.

I would like {grams} of cheese and {liters} of milk.
Ich hätte gern {grams} Käse und {liters} Milch.
Je voudrais {grams} de fromage et {liters} de lait.

For the cake, you need {grams} of flour and {milliliters} of milk.
Für den Kuchen braucht man {grams} Mehl und {milliliters} Milch.
Pour le gâteau, il faut {grams} de farine et {milliliters} de lait.

The truck carries {words_f} boxes, each weighing {weight}.
Der Lastwagen transportiert {words_f} Kisten, die je {weight} wiegen.
Le camion transporte {words_f} caisses, qui pèsent chacune {weight}.

In {month}, the shop sold {words} books for {amount}.
Im {month} verkaufte der Laden {words} Bücher für {amount}.
En {month}, la boutique a vendu {words} livres pour {amount}.

The bill comes to {euros2}; with the voucher, you pay {euros1}.
Die Rechnung beträgt {euros2}; mit dem Gutschein zahlen Sie {euros1}.
L'addition s'élève à {euros2} ; avec le bon, vous payez {euros1}.

The shelf is {centimeters2} high and {centimeters1} wide and costs {price}.
Das Regal ist {centimeters2} hoch und {centimeters1} breit und kostet {price}.
L'étagère mesure {centimeters2} de haut et {centimeters1} de large et coûte {price}.

The supermarket is {meters} from here and opens at {morning}.
Der Supermarkt ist {meters} von hier entfernt und öffnet um {morning} Uhr.
Le supermarché est à {meters} d'ici et ouvre à {morning}.

This phone has {data} of free storage and costs {amount}.
Dieses Telefon hat {data} freien Speicher und kostet {amount}.
Ce téléphone a {data} de mémoire libre et coûte {amount}.

The warranty lasts {months} and ends on {date}.
Die Garantie gilt {months} und endet am {date}.
La garantie dure {months} et prend fin le {date}.

Receipt {order}: {price}, paid on {medium} at {time}.
Quittung {order}: {price}, bezahlt am {medium} um {time} Uhr.
Reçu {order} : {price}, payé le {medium} à {time}.

Parcel {order}, {route}: {kg}, postage {price}.
Paket {order}, {route}: {kg}, Porto {price}.
Colis {order}, {route} : {kg}, port {price}.

A table for {appointment}, please; my number is {phone}.
Einen Tisch für {appointment}, bitte; meine Nummer ist {phone}.
Une table pour {appointment}, s'il vous plaît ; mon numéro est le {phone}.

The menu costs {euros1}, with wine {euros2}; the kitchen closes at {evening}.
Das Menü kostet {euros1}, mit Wein {euros2}; die Küche schließt um {evening} Uhr.
Le menu coûte {euros1}, vin compris {euros2} ; la cuisine ferme à {evening}.

The meeting takes place on {appointment} in room {room}.
Die Besprechung findet am {appointment} in Raum {room} statt.
La réunion a lieu {appointment} dans la salle {room}.

Please call Ms. Keller back at {phone} before {time}.
Bitte rufen Sie Frau Keller vor {time} Uhr unter {phone} zurück.
Veuillez rappeler Mme Keller au {phone} avant {time}.

Invoice {order} for {price} is due on {date}.
Die Rechnung {order} über {price} ist am {date} fällig.
La facture {order} de {price} est à régler le {date}.

In {month}, the share of online orders rose from {percent1} to {percent2}.
Im {month} stieg der Anteil der Online-Bestellungen von {percent1} auf {percent2}.
En {month}, la part des commandes en ligne est passée de {percent1} à {percent2}.

The company has {number} employees and {words_f} branches.
Das Unternehmen hat {number} Beschäftigte und {words_f} Filialen.
L'entreprise compte {number} salariés et {words_f} agences.

Please transfer {price} before {date}, quoting reference {order}.
Bitte überweisen Sie {price} vor dem {date} unter Angabe der Referenz {order}.
Veuillez virer {price} avant le {date} en indiquant la référence {order}.

For a loan of {amount}, the interest rate is {rate} per year.
Für einen Kredit über {amount} beträgt der Zinssatz {rate} pro Jahr.
Pour un prêt de {amount}, le taux d'intérêt est de {rate} par an.

The conference takes place from {day1} to {day2}; registration costs {amount}.
Die Konferenz findet vom {day1} bis zum {day2} statt; die Anmeldung kostet {amount}.
La conférence a lieu du {day1} au {day2} ; l'inscription coûte {amount}.

The file has a size of {data}; the download takes {duration}.
Die Datei hat eine Größe von {data}; das Herunterladen dauert {duration}.
Le fichier a une taille de {data} ; le téléchargement dure {duration}.

The office measures {area} and costs {amount} per month.
Das Büro ist {area} groß und kostet {amount} pro Monat.
Le bureau mesure {area} et coûte {amount} par mois.

My extension is {extension}; I am in office {room} until {evening}.
Meine Durchwahl ist {extension}; ich bin bis {evening} Uhr in Büro {room}.
Mon poste est le {extension} ; je suis dans le bureau {room} jusqu'à {evening}.

We need {words} copies of the report by {appointment}.
Wir brauchen {words} Exemplare des Berichts bis {appointment}.
Il nous faut {words} exemplaires du rapport d'ici {appointment}.

Contract {order} was signed on {date}, and is valid for {years}.
Der Vertrag {order} wurde am {date} unterschrieben und gilt {years}.
Le contrat {order} a été signé le {date} et est valable {years}.

Our office is open from {morning} to {evening}; otherwise, call {phone}.
Unser Büro ist von {morning} bis {evening} Uhr geöffnet; rufen Sie sonst {phone} an.
Notre bureau est ouvert de {morning} à {evening} ; sinon, appelez le {phone}.

Deadline: {full}, {time}; questions to extension {extension}.
Abgabefrist: {full}, {time} Uhr; Fragen an die Durchwahl {extension}.
Date limite : {full}, {time} ; questions au poste {extension}.

In {month}, the group had sales of {billions} euros, {percent} more than the year \
before.
Im {month} setzte der Konzern {billions} Euro um, {percent} mehr als im Vorjahr.
En {month}, le groupe a réalisé un chiffre d'affaires de {billions} d'euros, soit \
{percent} de plus que l'année précédente.

Since {month}, the insurance has cost {price} a month, {percent} more than before.
Seit {month} kostet die Versicherung {price} im Monat, {percent} mehr als vorher.
Depuis {month}, l'assurance coûte {price} par mois, soit {percent} de plus qu'avant.

Please pay the sum of {thousands} euros before {date}.
Bitte zahlen Sie den Betrag von {thousands} Euro vor dem {date}.
Veuillez payer la somme de {thousands} euros avant le {date}.

Your doctor's appointment is on {appointment} in room {room}.
Ihr Arzttermin ist am {appointment} in Zimmer {room}.
Votre rendez-vous chez le médecin aura lieu {appointment}, salle {room}.

Next appointment: {full}, {time}, room {room}.
Nächster Termin: {full}, {time} Uhr, Zimmer {room}.
Prochain rendez-vous : {full}, {time}, salle {room}.

Take {milliliters} of syrup at {time1} and again at {time2}.
Nehmen Sie {milliliters} Sirup um {time1} Uhr und noch einmal um {time2} Uhr.
Prenez {milliliters} de sirop à {time1}, puis de nouveau à {time2}.

The patient is {years} old, weighs {weight} and is {height} tall.
Der Patient ist {years} alt, wiegt {weight} und ist {height} groß.
Le patient a {years}, pèse {weight} et mesure {height}.

I had a fever of {fever1} at {time1} and of {fever2} at {time2}.
Ich hatte um {time1} Uhr {fever1} Fieber und um {time2} Uhr {fever2}.
J'avais {fever1} de fièvre à {time1} et {fever2} à {time2}.

The treatment lasts {weeks} and costs {amount}.
Die Behandlung dauert {weeks} und kostet {amount}.
Le traitement dure {weeks} et coûte {amount}.

The practice is closed from {day1} to {day2}; in an emergency, call {phone}.
Die Praxis ist vom {day1} bis zum {day2} geschlossen; rufen Sie im Notfall {phone} an.
Le cabinet est fermé du {day1} au {day2} ; en cas d'urgence, appelez le {phone}.

The twins were born on {date}, at {time1} and {time2}.
Die Zwillinge wurden am {date} um {time1} und {time2} Uhr geboren.
Les jumeaux sont nés le {date}, à {time1} et {time2}.

On {day}, the pharmacy at number {house} is open until {evening}.
Am {day} ist die Apotheke in der Hausnummer {house} bis {evening} Uhr geöffnet.
Le {day}, la pharmacie du numéro {house} est ouverte jusqu'à {evening}.

At the age of {age}, she ran {km} in {duration}.
Im Alter von {age} Jahren lief sie {km} in {duration}.
À l'âge de {age} ans, elle a couru {km} en {duration}.

A study of {number} patients shows that {percent} recover within {weeks}.
Eine Studie mit {number} Patienten zeigt, dass {percent} innerhalb von {weeks} genesen.
Une étude menée auprès de {number} patients montre que {percent} guérissent en {weeks}.

The film starts at {evening} in hall {small} and lasts {minutes}.
Der Film beginnt um {evening} Uhr in Saal {small} und dauert {minutes}.
Le film commence à {evening} dans la salle {small} et dure {minutes}.

The {ordinal} edition of the festival begins on {date}.
Die {ordinal} Ausgabe des Festivals beginnt am {date}.
La {ordinal} édition du festival commence le {date}.

The {ordinal} concert of our choir takes place on {medium} at {evening}.
Das {ordinal} Konzert unseres Chors findet am {medium} um {evening} Uhr statt.
Le {ordinal} concert de notre chœur aura lieu le {medium} à {evening}.

Tickets cost {euros1} for children and {euros2} for adults.
Eintrittskarten kosten {euros1} für Kinder und {euros2} für Erwachsene.
Les billets coûtent {euros1} pour les enfants et {euros2} pour les adultes.

So far, {words} tickets have been sold for the concert on {day}.
Bisher wurden {words} Karten für das Konzert am {day} verkauft.
Jusqu'ici, {words} billets ont été vendus pour le concert du {day}.

In {year}, {thousands} runners took part in the race over {km}.
Im Jahr {year} nahmen {thousands} Läufer an dem Rennen über {km} teil.
En {year}, {thousands} coureurs ont participé à la course de {km}.

The language courses ({languages}) start on {date}, and cost {amount}.
Die Sprachkurse ({languages}) beginnen am {date} und kosten {amount}.
Les cours de langue ({languages}) commencent le {date} et coûtent {amount}.

Our library owns {thousands} books and lends them for {weeks}.
Unsere Bibliothek besitzt {thousands} Bücher und verleiht sie für {weeks}.
Notre bibliothèque possède {thousands} livres et les prête pour {weeks}.

The bakery was founded in {year} and moved here {years} later.
Die Bäckerei wurde {year} gegründet und zog {years} später hierher.
La boulangerie a été fondée en {year} et s'est installée ici {years} plus tard.

The tank holds {liters}, and the car reaches {speed}.
Der Tank fasst {liters}, und das Auto erreicht {speed}.
Le réservoir contient {liters}, et la voiture atteint {speed}.

Last year, the apartment used {energy} of electricity for {price}.
Im letzten Jahr verbrauchte die Wohnung {energy} Strom für {price}.
L'an dernier, l'appartement a consommé {energy} d'électricité pour {price}.

Between {year1} and {year2}, the population fell by {percent} to {millions}.
Zwischen {year1} und {year2} sank die Bevölkerungszahl um {percent} auf {millions}.
Entre {year1} et {year2}, la population a baissé de {percent} et est tombée à \
{millions}.

The school has {words} students, {percent} of whom come by bus.
Die Schule hat {words} Schüler, von denen {percent} mit dem Bus kommen.
L'école compte {words} élèves, dont {percent} viennent en bus.

The exam begins on {appointment} and lasts {minutes}.
Die Prüfung beginnt am {appointment} und dauert {minutes}.
L'examen commence {appointment} et dure {minutes}.

Open day: {full}, from {morning} to {evening}.
Tag der offenen Tür: {full}, von {morning} bis {evening} Uhr.
Journée portes ouvertes : {full}, de {morning} à {evening}.

Wedding: {full}, {time}; please reply before {day}.
Hochzeit: {full}, {time} Uhr; bitte antworten Sie vor dem {day}.
Mariage : {full}, {time} ; merci de répondre avant le {day}.

He has lived at number {house}, apartment {room}, since {month}.
Er wohnt seit {month} in Hausnummer {house}, Wohnung {room}.
Il habite depuis {month} au numéro {house}, appartement {room}.

The farm has {words_f} cows, {words} sheep and {hectares} of land.
Der Hof hat {words_f} Kühe, {words} Schafe und {hectares} Land.
La ferme possède {words_f} vaches, {words} moutons et {hectares} de terres.

The hall holds {thousands} spectators, and {words_f} seats are still free.
Die Halle fasst {thousands} Zuschauer, und {words_f} Plätze sind noch frei.
La salle peut accueillir {thousands} spectateurs, et {words_f} places sont encore \
libres.

In {month}, volunteers planted {thousands} trees on {hectares}.
Im {month} pflanzten Freiwillige {thousands} Bäume auf {hectares}.
En {month}, des bénévoles ont planté {thousands} arbres sur {hectares}.

The book has {words_f} pages and was published in {year}.
Das Buch hat {words_f} Seiten und erschien {year}.
Le livre compte {words_f} pages et a paru en {year}.

In the vote, {words1} members were for the plan and {words2} against it.
Bei der Abstimmung waren {words1} Mitglieder für den Plan und {words2} dagegen.
Lors du vote, {words1} membres étaient pour le projet et {words2} contre.

She won with {words2} points; her sister reached {words1}.
Sie gewann mit {words2} Punkten; ihre Schwester erreichte {words1}.
Elle a gagné avec {words2} points ; sa sœur en a obtenu {words1}."""
